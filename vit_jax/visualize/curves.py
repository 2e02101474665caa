"""How training went, of one run or of many."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vit_jax.visualize.figures import new_figure, plain, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]

# A training loss of many rows is averaged over about this share of them.
_SMOOTHED = 1 / 40
# Journal's key -> label, factor; in the order of the panels.
_PANELS = {
    "loss": ("training loss", 1),
    "eval/loss": ("evaluation loss", 1),
    "eval/accuracy": ("evaluation accuracy (%)", 100),
    "learning_rate": ("learning rate", 1),
}


def series(rows: Rows, key: str) -> tuple[np.ndarray, np.ndarray]:
    """(steps, values) of the rows of a journal that have `key`."""
    found = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
    steps, values = zip(*found, strict=True) if found else ((), ())
    return np.array(steps, np.int64), np.array(values, np.float64)


def smoothed(values: np.ndarray, width: int) -> np.ndarray:
    """The mean of each value and up to `width` - 1 before it."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def draw_curves(journals: Mapping[str, Rows]) -> "Figure":
    """Losses, accuracy and learning rate by step, a line a run.

    Args:
      journals: name of a run -> its rows. What no run has gets no panel.

    Raises:
      ValueError: no run has any of these figures; matplotlib is not installed.
    """
    keys = [
        key for key in _PANELS if any(len(series(r, key)[0]) for r in journals.values())
    ]
    if not keys:
        raise ValueError(f"no row of {', '.join(journals)} has any of {list(_PANELS)}.")
    columns = min(2, len(keys))
    high = -(-len(keys) // columns)
    figure = new_figure(4.5 * columns, 2.9 * high)
    axes = figure.subplots(high, columns, squeeze=False, sharex=True).ravel()
    for panel, key in zip(axes, keys, strict=False):
        label, factor = _PANELS[key]
        for index, (name, rows) in enumerate(journals.items()):
            _draw_series(panel, *series(rows, key), factor, plain(name), f"C{index}")
        panel.set(xlabel="step", ylabel=label)
        panel.tick_params(labelbottom=True)
        tidy(panel)
        if key.endswith("loss") and _range(journals, key) > 30:
            panel.set_yscale("log")
        if key == "eval/accuracy":
            panel.set_ylim(top=min(100.5, panel.get_ylim()[1]))
    for panel in axes[len(keys) :]:
        panel.set_axis_off()
    if len(journals) > 1:
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside upper center", ncols=4, frameon=False
        )
    return figure


def _draw_series(
    panel: Any,
    steps: np.ndarray,
    values: np.ndarray,
    factor: float,
    name: str,
    color: str,
) -> None:
    """One line; one of many points is faint, under its mean of some."""
    style = {"color": color, "label": name}
    width = round(_SMOOTHED * len(values))
    if width < 2 or panel.get_subplotspec().num1 != 0:
        few = {"marker": "o", "markersize": 3} if len(values) < 40 else {}
        panel.plot(steps, factor * values, **few, **style)
        if len(values) == 1:
            at = (steps[0], factor * values[0])
            panel.annotate(
                f"{at[1]:.4g} ", at, ha="right", va="center", fontsize=9, color=color
            )
        return
    panel.plot(steps, factor * values, color=color, alpha=0.25, linewidth=0.8)
    panel.plot(steps, factor * smoothed(values, width), **style)


def _range(journals: Mapping[str, Rows], key: str) -> float:
    """How many times the smallest value the largest is; 1 where one is not above 0."""
    values = np.concatenate([series(rows, key)[1] for rows in journals.values()])
    values = values[np.isfinite(values)]
    if not len(values) or values.min() <= 0:
        return 1.0
    return values.max() / values.min()
