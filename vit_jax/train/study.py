"""Accuracy by the number of training images: many runs, a table and a curve.

Source: Dosovitskiy et al. 2021, arXiv 2010.11929, section 4.3 and figure 4.
"""

import copy
import csv
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath
from ml_collections import ConfigDict

from vit_jax.data.sources import open_source
from vit_jax.train.loop import train_and_evaluate
from vit_jax.visualize.figures import new_figure
from vit_jax.workdir import Workdir

_COLUMNS = ("fraction", "images", "seed", "accuracy", "loss")


@dataclasses.dataclass(frozen=True)
class Study:
    """What a study has so far.

    Attributes:
      rows: one a finished run: fraction, images, seed, accuracy, loss.
      stopped_by: number of the signal that stopped it; 0: it is finished.
    """

    rows: tuple[dict[str, Any], ...]
    stopped_by: int = 0


def study_data_size(
    config: ConfigDict,
    workdir: str | os.PathLike,
    *,
    fractions: Sequence[float],
    seeds: int,
    faults: Sequence[str] = (),
) -> Study:
    """Trains at each fraction of the training split with each seed; writes the tables.

    Each run has a folder of its own, so the same call again goes on where this one
    stopped. A fraction's classes stay in proportion; the images of a seed's smaller
    fraction are among those of its larger ones.

    Args:
      config: of the runs; data.train.fraction and seed are set here.
      workdir: gets fraction_F/seed_S/ for each run, table.csv and table.md.
      fractions: shares of the training split, above 0 and at most 1.
      seeds: runs at each, with seeds config.seed, config.seed + 1, ….
      faults: of the config, to be reported with the rest.

    Raises:
      ValueError: fractions, seeds or the config can't be used.
    """
    if not fractions or min(fractions) <= 0 or max(fractions) > 1:
        raise ValueError(f"fractions={tuple(fractions)} must be above 0 and at most 1.")
    if seeds < 1:
        raise ValueError(f"seeds={seeds} must be 1 or more.")
    if not config.data.eval.split:
        raise ValueError("data.eval.split is empty; a study needs a set to judge by.")
    root = Workdir(workdir).path
    rows: list[dict[str, Any]] = []
    for fraction in sorted(set(fractions)):
        for seed in range(config.seed, config.seed + seeds):
            own = copy.deepcopy(config)
            own.data.train.fraction, own.seed = float(fraction), seed
            folder = root / f"fraction_{fraction:g}" / f"seed_{seed}"
            result = train_and_evaluate(own, folder, faults=faults)
            if not result.finished:
                return Study(tuple(rows), result.stopped_by)
            rows.append(_row(own, result.evaluation))
            write_tables(root, rows)
    return Study(tuple(rows))


def summarize(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each fraction: images, runs, mean and deviation of the accuracy.

    The deviation is that of a sample (n - 1); 0 for a single run.
    """
    summary = []
    for fraction in sorted({row["fraction"] for row in rows}):
        own = [row for row in rows if row["fraction"] == fraction]
        values = [row["accuracy"] for row in own]
        summary.append(
            {
                "fraction": fraction,
                "images": own[0]["images"],
                "runs": len(own),
                "accuracy": float(np.mean(values)),
                "deviation": float(np.std(values, ddof=1)) if len(own) > 1 else 0.0,
            }
        )
    return summary


def write_tables(folder: epath.Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes table.csv, a line a run, and table.md, a line a fraction."""
    with (folder / "table.csv").open("w") as stream:
        writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = ["| share | images | runs | accuracy |", "|---|---|---|---|"]
    lines += [
        f"| {row['fraction']:g} | {row['images']:,} | {row['runs']} | "
        f"{row['accuracy']:.2%} ± {row['deviation']:.2%} |"
        for row in summarize(rows)
    ]
    (folder / "table.md").write_text("\n".join(lines) + "\n")


def write_curve(file: epath.Path, rows: Sequence[dict[str, Any]]) -> None:
    """Draws accuracy over the number of images, with the runs' deviation, as a PNG.

    Raises:
      ValueError: matplotlib, an optional extra, is not installed.
    """
    try:
        figure = new_figure(6, 4)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error} The tables are written.") from error
    summary = summarize(rows)
    axes = figure.add_subplot()
    axes.errorbar(
        [row["images"] for row in summary],
        [100 * row["accuracy"] for row in summary],
        yerr=[100 * row["deviation"] for row in summary],
        marker="o",
        capsize=3,
    )
    axes.set_xscale("log")
    axes.set_xticks(
        [row["images"] for row in summary],
        [f"{row['images']:,}" for row in summary],
    )
    axes.minorticks_off()
    axes.set_xlabel("training images")
    axes.set_ylabel("accuracy in %")
    axes.grid(alpha=0.3)
    with file.open("wb") as stream:
        figure.savefig(stream, format="png", dpi=150)


def _row(config: ConfigDict, evaluation: dict[str, Any]) -> dict[str, Any]:
    images = len(open_source(config.data.source, config.data.train.split))
    return {
        "fraction": config.data.train.fraction,
        "images": max(1, round(config.data.train.fraction * images)),
        "seed": config.seed,
        "accuracy": evaluation["eval/accuracy"],
        "loss": evaluation["eval/loss"],
    }
