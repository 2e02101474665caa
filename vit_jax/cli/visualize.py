"""`vit_jax visualize`: pictures of a run or of any weights, on one page."""

import argparse
import os
import sys

from vit_jax.cli import weights

HELP = "draw a model: filters, positions, attention, mistakes, training curves"
EXAMPLES = """\
examples:
  vit_jax visualize --workdir=runs/digits --output=report
  vit_jax visualize --workdir=runs/photos --images photos/test/dog --layer=6
  vit_jax visualize --workdir=ViT-B_16.npz --images dog.jpg --mask=0,0.3,0.5,0.7
  vit_jax visualize --workdir=runs/a --compare runs/b runs/c

Writes a PNG for each picture and report.html, which shows them all and needs no other
file. Without --images, a run's first evaluation images are looked at. What can't be
drawn (a run whose data is gone, weights without a head) is said, and the rest is drawn.
Needs matplotlib: pip install 'vit_jax[plots]'."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument(
        "--workdir",
        required=True,
        help="folder of a training run, or any weights that convert reads",
    )
    parser.add_argument(
        "--images", nargs="+", default=[], help="image files and folders of them"
    )
    parser.add_argument(
        "--output", default="report", help="folder to write into (default report)"
    )
    parser.add_argument(
        "--checkpoint", default="latest", help="latest (default), best or a step"
    )
    weights.add_arguments(parser, "a bare file")
    parser.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="WORKDIR",
        help="runs whose training curves are drawn beside this one's",
    )
    parser.add_argument(
        "--layer", type=int, default=0, help="whose heads to show (default: the last)"
    )
    parser.add_argument(
        "--mask",
        metavar="TOP,LEFT,BOTTOM,RIGHT",
        help="what to cover in the first image, as shares of it from 0 to 1 (default: "
        "where the model looks most)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=2000,
        help="most evaluation images to judge the model by (default 2000)",
    )
    parser.add_argument(
        "--occluded",
        type=int,
        default=16,
        help="images whose patches are covered bit by bit (default 16; 0: none)",
    )


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Draws and says what was written; returns the exit status."""
    from vit_jax.train.pictures import write_pictures

    if overrides:
        raise ValueError(
            "visualize takes no --config keys; the workdir has its config."
        )
    for flag, least in (("layer", 0), ("examples", 1), ("occluded", 0)):
        if (value := getattr(arguments, flag)) < least:
            raise ValueError(f"--{flag}={value} must be {least} or more.")
    written = write_pictures(
        arguments.workdir,
        arguments.output,
        images=arguments.images,
        compare=[os.path.expanduser(path) for path in arguments.compare],
        checkpoint=arguments.checkpoint,
        layer=arguments.layer,
        mask=_mask(arguments.mask),
        examples=arguments.examples,
        occluded=arguments.occluded,
        **weights.said_by(arguments),
    )
    for note in written.notes:
        print(f"note: {note}")
    print(f"wrote {written.page} with {', '.join(written.names)}")
    for file, reason in written.unreadable.items():
        print(f"error: {file} can't be read: {reason}", file=sys.stderr)
    return 1 if written.unreadable else 0


def _mask(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        shares = [float(word) for word in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) != 4:
        raise ValueError(
            f"--mask={text} must be four numbers with commas between: top, left, "
            "bottom and right as shares of the image, as in 0,0.3,0.5,0.7."
        )
    return shares
