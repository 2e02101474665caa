"""Training curves of runs as one picture: loss by step, and evaluations.

    python benchmarks/curves.py runs/tiny_0 runs/tiny_1 --output=curves.png

Each run is a workdir with a metrics.jsonl. Needs matplotlib (pip install '.[plots]').
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

# Training losses are averaged over so many rows, for a line that can be read.
_SMOOTHED = 5


def rows_with(workdir: Path, key: str) -> tuple[list[int], list[float]]:
    """Steps and values of `key` in a run's journal."""
    rows = [
        json.loads(line)
        for line in (workdir / "metrics.jsonl").read_text().splitlines()
    ]
    rows = [row for row in rows if row.get(key) is not None]
    return [row["step"] for row in rows], [row[key] for row in rows]


def draw(workdirs: list[Path], output: Path) -> None:
    """Writes the picture."""
    figure, (losses, accuracies) = plt.subplots(1, 2, figsize=(9, 3.4), dpi=120)
    for workdir in workdirs:
        steps, values = rows_with(workdir, "loss")
        kernel = np.ones(_SMOOTHED) / _SMOOTHED
        smooth = np.convolve(values, kernel, mode="valid")
        losses.plot(steps[_SMOOTHED - 1 :], smooth, label=workdir.name, linewidth=1.2)
        steps, values = rows_with(workdir, "eval/accuracy")
        accuracies.plot(steps, np.multiply(values, 100), marker="o", markersize=3)
    losses.set(xlabel="step", ylabel="training loss")
    losses.legend(frameon=False)
    accuracies.set(xlabel="step", ylabel="test accuracy, %")
    for axes in (losses, accuracies):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(output)


def main() -> None:
    """Reads the command line and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workdirs", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=Path("curves.png"))
    arguments = parser.parse_args()
    draw(arguments.workdirs, arguments.output)


if __name__ == "__main__":
    main()
