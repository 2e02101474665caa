"""`vit_jax evaluate`: a trained model's figures on labelled sets."""

import argparse
import json
import sys
from typing import Any

HELP = "evaluate a checkpoint of a training run"
EXAMPLES = """\
examples:
  vit_jax evaluate --workdir=runs/digits
  vit_jax evaluate --workdir=runs/photos --checkpoint=best --per_class
  vit_jax evaluate --workdir=runs/photos --data=other_photos --split=test
  vit_jax evaluate --workdir=runs/photos --confusion=confusion.csv --json
  vit_jax evaluate --workdir=runs/imagenet --real=real.json

Without --data and --split, the sets of evals.sets are evaluated too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument("--workdir", required=True, help="folder of a training run")
    parser.add_argument(
        "--checkpoint", default="latest", help="latest (default), best or a step"
    )
    parser.add_argument(
        "--data", help="another source than the run's: a folder, digits or tfds:NAME"
    )
    parser.add_argument("--split", help="another split than the run's data.eval.split")
    parser.add_argument("--batch_size", type=int, help="images at a time")
    parser.add_argument(
        "--per_class", action="store_true", help="show the accuracy of each class too"
    )
    parser.add_argument(
        "--confusion",
        metavar="FILE",
        help="write the confusion matrix to a .csv or .json: rows are classes, columns "
        "predictions",
    )
    parser.add_argument(
        "--real", metavar="FILE", help="ImageNet-ReaL's real.json, for its accuracy"
    )
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
        checkpoint=arguments.checkpoint,
        per_class=arguments.per_class,
        confusion_file=arguments.confusion,
        real=arguments.real,
    )
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(_lines(figures)))
    for name in figures.get("skipped", ()):
        print(f"skipped, since it can't be read: {name}", file=sys.stderr)
    if "warning" in figures:
        print(figures["warning"], file=sys.stderr)
    if figures.get("confusion"):
        print(f"wrote {figures['confusion']}", file=sys.stderr)
    return 0


def _lines(figures: dict[str, Any]) -> list[str]:
    where = f"{figures['source']} ({figures['split']})"
    lines = [f"step {figures['step']}, {_summary(figures, where)}"]
    if "real_accuracy" in figures:
        lines.append(
            f"ReaL accuracy {figures['real_accuracy']:.2%} of "
            f"{figures['real_examples']} images with labels"
        )
    for name, others in figures.get("sets", {}).items():
        lines.append(_summary(others, name))
    if "per_class" in figures:
        lines.append(f"mean over classes {figures['mean_class_accuracy']:.2%}")
        width = max(len(row["class"]) for row in figures["per_class"])
        lines += [
            f"  {row['class']:{width}}  {row['accuracy']:7.2%} of {row['examples']}"
            for row in figures["per_class"]
        ]
    return lines


def _summary(figures: dict[str, Any], where: str) -> str:
    return (
        f"{figures['examples']} images of {where}: accuracy {figures['accuracy']:.2%}, "
        f"top-5 {figures['top5_accuracy']:.2%}, loss {figures['loss']:.4f}"
    )
