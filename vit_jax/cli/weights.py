"""Flags that say of weights what a bare file leaves open."""

import argparse
from typing import Any

_NAMES = (
    "variant",
    "image_size",
    "num_heads",
    "gelu",
    "norm_epsilon",
    "mean",
    "std",
)


def add_arguments(parser: argparse.ArgumentParser, source: str) -> None:
    """Declares the flags.

    Args:
      source: what the command calls the place of the weights.
    """
    parser.add_argument(
        "--variant",
        help=f"the model's name, ours or timm's: what {source} leaves open (heads, "
        f"GELU, epsilon) is as in that model, and its size must be {source}'s",
    )
    parser.add_argument(
        "--image_size",
        type=int,
        nargs="+",
        help=f"pixels, one number or rows and columns, where {source} is no square's",
    )
    parser.add_argument(
        "--num_heads",
        type=int,
        help=f"heads of attention, where {source} leaves it open",
    )
    parser.add_argument(
        "--gelu",
        choices=("tanh", "exact", "quick"),
        help=f"form of the activation, where {source} leaves it open",
    )
    parser.add_argument(
        "--norm_epsilon",
        type=float,
        help=f"of the norms, where {source} leaves it open",
    )
    for name, what in (("mean", "means"), ("std", "standard deviations")):
        parser.add_argument(
            f"--{name}",
            type=float,
            nargs="+",
            help=f"{what} of the images, one for all channels or one each, on a scale "
            f"from 0 to 1, where {source} leaves it open",
        )


def said_by(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was said, as keywords of `vit_jax.load`."""
    said = {name: getattr(arguments, name) for name in _NAMES}
    return {name: value for name, value in said.items() if value is not None}
