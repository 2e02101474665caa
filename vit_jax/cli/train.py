"""`vit_jax train`: trains by a recipe, or goes on where a run stopped."""

import argparse

HELP = "train by a recipe, or go on where a run stopped"
EXAMPLES = """\
examples:
  vit_jax train --config=digits --workdir=runs/digits
  vit_jax train --config=cifar10_tiny --workdir=runs/tiny \\
      --config.data.source=FOLDER --config.schedule.base_learning_rate=3e-4
  vit_jax train --config=vit_s16_i1k:epochs=90 --workdir=runs/s16

The same command again goes on from the newest checkpoint. Ctrl-C (exit status 130)
and SIGTERM (143) save first. On several hosts give the same command on each: TPU
slices, Slurm (srun) and Open MPI are recognised; elsewhere say who is who with
--coordinator=HOST:PORT --num_processes=N --process_id=I.
`vit_jax config` lists the recipes and every key."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument(
        "--config",
        required=True,
        metavar="RECIPE",
        help="name of a recipe, or path of a Python file with get_config(), with its "
        "arguments after a colon (NAME:ARGUMENT=VALUE,…); --config.KEY=VALUE changes a "
        "key",
    )
    parser.add_argument(
        "--workdir",
        required=True,
        help="folder of the run: checkpoints, metrics, all that predict needs",
    )
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        help="several hosts: where process 0 runs (port 8476)",
    )
    parser.add_argument(
        "--num_processes",
        type=int,
        metavar="N",
        help="several hosts: how many processes there are",
    )
    parser.add_argument(
        "--process_id",
        type=int,
        metavar="I",
        help="several hosts: which one this is, from 0 on",
    )
    parser.add_argument(
        "--distributed",
        choices=("auto", "on", "off"),
        default="auto",
        help="off: this host alone, whatever the environment says (auto)",
    )
    parser.add_argument(
        "--host_timeout",
        type=int,
        default=300,
        metavar="SECONDS",
        help="how long to wait for the other processes (300)",
    )


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Trains; returns the exit status."""
    from vit_jax import hosts
    from vit_jax.cli.recipes import load_config
    from vit_jax.train.loop import train_and_evaluate

    hosts.join(
        arguments.coordinator,
        arguments.num_processes,
        arguments.process_id,
        distributed=arguments.distributed,
        timeout=arguments.host_timeout,
    )
    config, faults = load_config(arguments.config, overrides)
    result = train_and_evaluate(config, arguments.workdir, faults=faults)
    return 0 if result.finished else 128 + result.stopped_by
