"""`vit_jax COMMAND …`, the same as `python -m vit_jax COMMAND …`."""

import argparse
import importlib
import os
import sys
import traceback
from types import ModuleType

from absl import logging

from vit_jax import __version__
from vit_jax.cli.overrides import take_overrides
from vit_jax.cli.parser import Parser
from vit_jax.cli.platforms import leave_out_absent_tpus

# In the order in which a new user meets them.
COMMANDS = (
    "demo",
    "train",
    "evaluate",
    "predict",
    "visualize",
    "convert",
    "probe",
    "study",
    "plan",
    "config",
    "data",
)


# What XLA says where an allocation failed; on CPUs also a library that it calls.
_MEMORY_WORDS = ("RESOURCE_EXHAUSTED", "Out of memory", "YNNPACK operation failed")
_NO_MEMORY = (
    "there is not enough memory. In order of what it costs: a smaller part of the "
    "batch at a time (train.accumulation_steps, train.remat=full), a smaller batch "
    "(data.train.batch_size, data.eval.batch_size), a smaller image "
    "(model.image_size), a larger patch or a smaller model (model.variant). "
    "`vit_jax plan` says what each would give."
)


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status.

    0: done. 1: stopped on the way (training diverged, an image can't be read, the disk
    is full). 2: what was asked for can't be done. 130: interrupted by Ctrl-C. 143: told
    to end by SIGTERM, as before a TPU VM is taken away. After 130 and 143 `train` has
    saved, and the same command goes on.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        # Orbax tells every step of a save; its warnings about our layout mislead, and
        # what it logs as an error is raised too.
        logging.set_verbosity(logging.FATAL)
        leave_out_absent_tpus()
        overrides, arguments = take_overrides(arguments)
        parser = _parser()
        if not arguments and not overrides:
            parser.print_help()
            return 2
        parsed = parser.parse_args(arguments)
        return _command(parsed.command).run(parsed, overrides)
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError) as error:
        return _fail(error, status=2)
    except MemoryError as error:
        print(_NO_MEMORY, file=sys.stderr)
        return _fail(error, status=1)
    except RuntimeError as error:
        if _is_memory(error):
            print(_NO_MEMORY, file=sys.stderr)
        return _fail(error, status=1)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="vit_jax",
        description="Vision Transformers in JAX: train, evaluate, predict, convert.",
        epilog="`vit_jax COMMAND --help` shows the flags of a command and examples. "
        "With VIT_JAX_TRACEBACK=1 in the environment an error shows where it was "
        "raised.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        command = _command(name)
        sub = commands.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
    return parser


def _command(name: str) -> ModuleType:
    """The module of a command; heavy imports wait until it runs."""
    return importlib.import_module(f"vit_jax.cli.{name}")


def _fail(error: Exception, *, status: int) -> int:
    if os.environ.get("VIT_JAX_TRACEBACK"):
        raise error
    print(f"error: {error}", file=sys.stderr)
    if not _is_ours(error):
        print("(VIT_JAX_TRACEBACK=1 shows where it was raised)", file=sys.stderr)
    return status


def _is_memory(error: Exception) -> bool:
    return any(words in str(error) for words in _MEMORY_WORDS)


def _is_ours(error: Exception) -> bool:
    """Whether our own code raised `error`, whose text then says all there is to say."""
    frames = list(traceback.walk_tb(error.__traceback__))
    raised_in, _ = frames[-1]
    return raised_in.f_globals.get("__name__", "").startswith("vit_jax")


if __name__ == "__main__":
    sys.exit(main())
