"""`vit_jax demo`: the whole job on real images, in two minutes, with a report."""

import argparse
import sys
from pathlib import Path

HELP = "train, evaluate and predict on bundled real digits, about two minutes"
EXAMPLES = """\
examples:
  vit_jax demo
  vit_jax demo --workdir=runs/digits_1 --config.seed=1

Again on the same workdir it goes on where it stopped; when finished, it evaluates,
predicts and draws only. The report needs matplotlib: pip install 'vit_jax[plots]'."""

_SHOWN = 5
_OCCLUDED = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument(
        "--workdir", default="runs/digits", help="folder of the run (runs/digits)"
    )


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Trains, evaluates, predicts and explains; returns the exit status."""
    from vit_jax.cli.predict import predict_and_print
    from vit_jax.cli.recipes import load_config
    from vit_jax.train.evaluate import evaluate_workdir
    from vit_jax.train.loop import train_and_evaluate

    workdir = arguments.workdir
    print("Training a small Vision Transformer on 1,437 real images of digits.")
    config, faults = load_config("digits", overrides)
    result = train_and_evaluate(config, workdir, faults=faults)
    if not result.finished:
        return 128 + result.stopped_by
    figures = evaluate_workdir(workdir)
    print(
        f"\nThe checkpoint of step {figures['step']}, reloaded from disk, is right for "
        f"{figures['accuracy']:.2%} of {figures['examples']} test images that training "
        "never saw.\n"
    )
    files = _write_examples(Path(workdir).expanduser() / "examples")
    status = predict_and_print(workdir, [str(file) for file in files])
    _draw(workdir)
    print(_what_next(workdir, files[0].parent))
    return status


def _draw(workdir: str) -> None:
    """Ends with pictures; where matplotlib is missing, says how to get them."""
    from vit_jax.train.pictures import write_pictures
    from vit_jax.visualize.figures import require

    try:
        require()
    except ValueError as error:
        print(f"\nNo report: {error}", file=sys.stderr)
        return
    report = write_pictures(workdir, Path(workdir) / "report", occluded=_OCCLUDED)
    print(
        f"\nWhat the model has learnt, where it looks and what it gets wrong, in "
        f"pictures: open {report.page} in a browser."
    )


def _write_examples(folder: Path) -> list[Path]:
    """The first test images as PNG files, named by what they show."""
    import numpy as np
    from PIL import Image

    from vit_jax.data.sources import open_source

    folder.mkdir(parents=True, exist_ok=True)
    source = open_source("digits", "test")
    files = []
    for index in range(_SHOWN):
        pixels, label, _ = source[index]
        file = folder / f"test_{index}_is_{source.class_names[label]}.png"
        Image.fromarray(np.squeeze(pixels)).save(file)
        files.append(file)
    return files


def _what_next(workdir: str, examples: Path) -> str:
    return f"""
What lies where:
  {workdir}/checkpoints    the weights (Orbax), with the optimizer's state
  {workdir}/metrics.jsonl  loss, learning rate and images/s by step
  {workdir}/examples       the images predicted above

What to try next:
  vit_jax predict --workdir={workdir} {examples}
  vit_jax visualize --workdir={workdir} --images {examples} --output=report
  vit_jax train --config=digits --workdir=runs/mine --config.model.depth=2
  vit_jax train --config=cifar10_tiny --workdir=runs/photos --config.data.source=FOLDER
  tensorboard --logdir=runs          (pip install tensorboard)
  vit_jax --help
(Outside an active virtual environment the command is .venv/bin/vit_jax.)"""
