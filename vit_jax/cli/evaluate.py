"""`vit_jax evaluate`: a trained model's figures on a labelled set."""

import argparse
import json

HELP = "evaluate a training run's newest checkpoint"
EXAMPLES = """\
examples:
  vit_jax evaluate --workdir=runs/digits
  vit_jax evaluate --workdir=runs/photos --data=other_photos --split=test
  vit_jax evaluate --workdir=runs/photos --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument("--workdir", required=True, help="folder of a training run")
    parser.add_argument(
        "--data", help="another source than the run's: a folder, digits or tfds:NAME"
    )
    parser.add_argument("--split", help="another split than the run's data.eval.split")
    parser.add_argument("--batch_size", type=int, help="images at a time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Evaluates and prints; returns the exit status."""
    from vit_jax.train.evaluate import evaluate_workdir

    if overrides:
        raise ValueError(
            "evaluate takes no --config keys; --data, --split and --batch_size change "
            "what it reads."
        )
    if arguments.batch_size is not None and arguments.batch_size < 1:
        raise ValueError(f"--batch_size={arguments.batch_size} must be 1 or more.")
    figures = evaluate_workdir(
        arguments.workdir,
        source=arguments.data,
        split=arguments.split,
        batch_size=arguments.batch_size,
    )
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return 0
    print(
        f"step {figures['step']}, {figures['examples']} images of "
        f"{figures['source']} ({figures['split']}): "
        f"accuracy {figures['accuracy']:.2%}, top-5 {figures['top5_accuracy']:.2%}, "
        f"loss {figures['loss']:.4f}"
    )
    return 0
