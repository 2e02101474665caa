"""`vit_jax study`: many runs that differ in one thing, with a table and a curve."""

import argparse

HELP = "train at several sizes of the training set; write a table and a curve"
EXAMPLES = """\
examples:
  vit_jax study data_size --config=digits --workdir=runs/study
  vit_jax study data_size --config=cifar10_tiny --workdir=runs/study \\
      --fractions=0.1,0.3,1 --seeds=3 --config.data.source=FOLDER

The same command again goes on where it stopped. Runs of equal length in steps need
--config.schedule.total_steps; total_epochs gives smaller sets fewer steps. curve.png
needs matplotlib (pip install 'vit_jax[plots]')."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the study and its flags."""
    studies = parser.add_subparsers(dest="study", required=True, metavar="STUDY")
    size = studies.add_parser(
        "data_size", help="accuracy by number of training images", allow_abbrev=False
    )
    size.add_argument("--config", required=True, metavar="RECIPE", help="as of train")
    size.add_argument(
        "--workdir", required=True, help="folder of the runs, tables and curve"
    )
    size.add_argument(
        "--fractions",
        default="0.1,0.25,0.5,1",
        help="shares of the training split (default 0.1,0.25,0.5,1)",
    )
    size.add_argument("--seeds", type=int, default=3, help="runs at each (default 3)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Trains, writes and prints the table; returns the exit status."""
    from vit_jax.cli.recipes import load_config
    from vit_jax.train.study import study_data_size, write_curve
    from vit_jax.workdir import Workdir

    try:
        fractions = [float(word) for word in arguments.fractions.split(",")]
    except ValueError as error:
        raise ValueError(
            f"--fractions={arguments.fractions} must be numbers with commas between."
        ) from error
    config, faults = load_config(arguments.config, overrides)
    folder = Workdir(arguments.workdir).path
    study = study_data_size(
        config, folder, fractions=fractions, seeds=arguments.seeds, faults=faults
    )
    if study.stopped_by:
        return 128 + study.stopped_by
    print((folder / "table.md").read_text(), end="")
    write_curve(folder / "curve.png", study.rows)
    print(f"wrote table.csv, table.md and curve.png in {folder}")
    return 0
