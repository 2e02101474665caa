"""`vit_jax probe`: linear evaluation of features, few-shot or on all examples."""

import argparse
import json
import sys
from typing import Any

HELP = "evaluate a model's features by a linear classifier in closed form"
EXAMPLES = """\
examples:
  vit_jax probe --workdir=runs/digits
  vit_jax probe --workdir=runs/digits --shots=1,5,10,25 --seeds=5
  vit_jax probe --workdir=runs/digits --layers=all --shots=all
  vit_jax probe --workdir=runs/photos --data=birds --train_split=train --split=val

Few-shot accuracy as big_vision measures it: whitened features, ridge regression of
strength 2^10, the mean of three draws. With several of --l2 the one of the best mean
rank is shown; it has then seen the test set."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument("--workdir", required=True, help="folder of a training run")
    parser.add_argument(
        "--checkpoint", default="latest", help="latest (default), best or a step"
    )
    parser.add_argument("--data", help="labelled images; default: the run's own")
    parser.add_argument("--train_split", help="split that examples are drawn from")
    parser.add_argument("--split", help="split that is predicted")
    parser.add_argument(
        "--shots",
        default="1,5,10,25",
        help="examples of each class, or all (default 1,5,10,25)",
    )
    parser.add_argument(
        "--layers",
        default="pooled",
        help="pooled (default: what the head reads), numbers of blocks from 0, or all",
    )
    parser.add_argument(
        "--l2", default="1024", help="strengths of the penalty (default 1024)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="draws (default 3)")
    parser.add_argument(
        "--batch_size", type=int, default=128, help="images at a time (default 128)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Evaluates and prints a table; returns the exit status."""
    from vit_jax.train.probe import probe

    if overrides:
        raise ValueError("probe takes no --config keys; the workdir has its config.")
    if arguments.batch_size < 1:
        raise ValueError(f"--batch_size={arguments.batch_size} must be 1 or more.")
    rows = probe(
        arguments.workdir,
        source=arguments.data,
        train_split=arguments.train_split,
        test_split=arguments.split,
        layers=arguments.layers.split(","),
        shots=_numbers("shots", arguments.shots.replace("all", "0"), int),
        l2=_numbers("l2", arguments.l2, float),
        seeds=arguments.seeds,
        batch_size=arguments.batch_size,
        checkpoint=arguments.checkpoint,
        tell=lambda line: print(line, file=sys.stderr),
    )
    print(json.dumps(rows, indent=2) if arguments.json else _table(rows))
    return 0


def _numbers(flag: str, text: str, kind: type) -> list[Any]:
    try:
        return [kind(word) for word in text.split(",")]
    except ValueError as error:
        raise ValueError(
            f"--{flag}={text} must be numbers with commas between."
        ) from error


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["layer   shots        l2  accuracy"]
    lines += [
        f"{row['layer']:<6}  {row['shots']!s:>5}  {row['l2']:>8g}  "
        f"{row['accuracy']:.2%} ± {row['deviation']:.2%}"
        for row in rows
    ]
    return "\n".join(lines)
