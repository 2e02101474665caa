"""`vit_jax predict`: classes of image files, with probabilities."""

import argparse
import json
import os
import sys
from typing import Any

from vit_jax.cli import weights

HELP = "name the classes of image files, with probabilities"
EXAMPLES = """\
examples:
  vit_jax predict --workdir=runs/digits image.png folder/
  vit_jax predict --workdir=runs/digits --top=1 --json folder/ > predictions.json
  vit_jax predict --workdir=augreg:B/16@224 dog.jpg

A folder stands for all images below it. A file that can't be read is named on standard
error; the others are predicted all the same, and the exit status is 1. A run with
train.loss=sigmoid gives each class its own probability."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument("images", nargs="+", help="image files and folders of them")
    parser.add_argument(
        "--workdir",
        required=True,
        help="folder of a training run, or any weights that convert reads",
    )
    parser.add_argument(
        "--checkpoint", default="latest", help="latest (default), best or a step"
    )
    parser.add_argument(
        "--top", type=int, default=3, help="classes shown for each image (default 3)"
    )
    weights.add_arguments(parser, "a bare file")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON list instead of a table"
    )


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Predicts and prints; returns the exit status."""
    if overrides:
        raise ValueError("predict takes no --config keys; the workdir has its config.")
    if arguments.top < 1:
        raise ValueError(f"--top={arguments.top} must be 1 or more.")
    return predict_and_print(
        arguments.workdir,
        arguments.images,
        top=arguments.top,
        as_json=arguments.json,
        checkpoint=arguments.checkpoint,
        **weights.said_by(arguments),
    )


def predict_and_print(
    workdir: str,
    paths: list[str],
    *,
    top: int = 3,
    as_json: bool = False,
    checkpoint: str = "latest",
    **said: Any,
) -> int:
    """Predicts the images at `paths`; returns the exit status.

    Args:
      workdir, checkpoint, **said: as `vit_jax.load` takes them.
    """
    from vit_jax.data.files import find_images
    from vit_jax.evals.prediction import any_colour, predict_files
    from vit_jax.weights import load, make_logits

    files = find_images([os.path.expanduser(path) for path in paths])
    loaded = load(workdir, checkpoint, **said)
    for line in loaded.report():
        print(line, file=sys.stderr)
    if loaded.preprocessing["channels"] == 1 and (file := any_colour(files)):
        print(
            f"note: images such as {file} have colours and become grey, as the model "
            "takes them",
            file=sys.stderr,
        )
    predictions, unreadable = predict_files(
        make_logits(loaded.model, loaded.preprocessing),
        loaded.params,
        files,
        preprocessing=loaded.preprocessing,
        class_names=loaded.class_names,
        top=top,
        loss=loaded.loss,
    )
    if as_json:
        print(json.dumps(predictions, indent=2))
    elif predictions:
        print(_table(predictions))
    for file, reason in unreadable.items():
        print(f"error: {file} can't be read: {reason}", file=sys.stderr)
    return 1 if unreadable else 0


def _table(predictions: list[dict[str, Any]]) -> str:
    """A line an image: its file and the likeliest classes, in columns."""
    cells = [
        [row["file"], *(f"{c['class']} {c['probability']:.1%}" for c in row["classes"])]
        for row in predictions
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    )
