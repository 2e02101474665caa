"""Which classes are taken for which."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vit_jax.visualize.figures import new_figure, plain, require, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# More classes than a page has room for: those with most mistakes are shown.
MOST = 25
_NAME = 18


def most_confused(matrix_VV: np.ndarray, most: int = MOST) -> np.ndarray:
    """Ids of the classes to show, in their order: all, or those with most mistakes.

    A mistake counts for the class that it was and for the one that it was taken for.

    Args:
      matrix_VV: counts; row the class, column what was predicted.
    """
    wrong_VV = matrix_VV - np.diag(np.diag(matrix_VV))
    mistakes_V = wrong_VV.sum(axis=0) + wrong_VV.sum(axis=1)
    return np.sort(np.argsort(-mistakes_V, kind="stable")[:most])


def shares_of_rows(matrix_VV: np.ndarray) -> np.ndarray:
    """Each row divided by its sum; a class without examples has zeros."""
    counts_V1 = matrix_VV.sum(axis=1, keepdims=True)
    return matrix_VV / np.maximum(counts_V1, 1)


def draw_confusion(matrix_VV: np.ndarray, class_names: Sequence[str]) -> "Figure":
    """Counts over colours: what share of a class was predicted as what.

    Args:
      matrix_VV: counts; row the class, column what was predicted.
      class_names: of all V; of more than `MOST` the most confused are shown.

    Raises:
      ValueError: matplotlib is not installed.
    """
    require()
    from matplotlib import colors

    chosen = most_confused(matrix_VV)
    # Shares are of all examples of a class, shown or not.
    shares = shares_of_rows(matrix_VV)[np.ix_(chosen, chosen)]
    counts = matrix_VV[np.ix_(chosen, chosen)]
    names = [plain(shortened(class_names[index], _NAME)) for index in chosen]
    side = max(3.2, 0.38 * len(chosen) + 1.2)
    figure = new_figure(side + 1.2, side)
    axes = figure.add_subplot()
    # Few mistakes among many right answers are to be seen too.
    scale = colors.PowerNorm(0.4, 0, 1)
    shown = axes.imshow(shares, cmap="Blues", norm=scale)
    ticks = range(len(chosen))
    upright = max(map(len, names)) > 3
    axes.set_xticks(ticks, names, fontsize=8, rotation=90 if upright else 0)
    axes.set_yticks(ticks, names, fontsize=8)
    axes.set(xlabel="predicted", ylabel="class")
    for row, column in np.argwhere(counts):
        light = shares[row, column] > 0.3
        axes.text(
            column,
            row,
            f"{counts[row, column]:,}",
            ha="center",
            va="center",
            fontsize=7,
            color="white" if light else "black",
        )
    figure.colorbar(shown, ax=axes, label="share of the class", shrink=0.8)
    return figure
