"""How far attention looks, by head and depth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vit_jax.layers.position import Layout
from vit_jax.visualize.figures import new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pixel_distances(grid: tuple[int, int], patch: tuple[float, float]) -> np.ndarray:
    """[N, N] distances in pixels between the middles of patches.

    Args:
      grid: (rows, columns).
      patch: (rows, columns) of pixels of one patch.
    """
    places_N2 = np.mgrid[: grid[0], : grid[1]].reshape(2, -1).T * np.asarray(patch)
    return np.linalg.norm(places_N2[:, None] - places_N2[None], axis=-1)


def mean_distances(
    weights_LHNM: Sequence[np.ndarray] | np.ndarray,
    layout: Layout,
    patch: tuple[float, float],
) -> np.ndarray:
    """[L, H] pixels between a patch and what it attends to, by weight.

    Prefix tokens lie nowhere: they are left out both ways, and what a patch gives to
    other patches is scaled to sum to 1. A patch that gives nothing to any counts for
    none; a head of such patches alone is NaN.

    Args:
      weights_LHNM: attention of one image, [H, N, N] a layer.
      layout: how the tokens lie.
      patch: see `pixel_distances`.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, figure 7 right.
    """
    distances_NM = pixel_distances(layout.grid, patch)
    first, rows = layout.num_prefix, []
    for weights_HNM in weights_LHNM:
        seen_HNM = np.asarray(weights_HNM, np.float64)[:, first:, first:]
        given_HN = seen_HNM.sum(axis=-1)
        far_HN = np.einsum("HNM,NM->HN", seen_HNM, distances_NM)
        counted = given_HN > 1e-12
        mean_HN = np.divide(far_HN, given_HN, np.zeros_like(far_HN), where=counted)
        number_H = counted.sum(axis=-1)
        none = np.full(len(number_H), np.nan)
        rows.append(np.divide(mean_HN.sum(-1), number_H, none, where=number_H > 0))
    return np.stack(rows)


def draw_distances(distances_LH: np.ndarray, whole: float) -> "Figure":
    """A point for each head over the depth of its layer.

    Args:
      distances_LH: pixels, averaged over images.
      whole: the distance of attention that is the same for all patches, drawn as a
        line to compare with.

    Raises:
      ValueError: matplotlib is not installed.
    """
    figure = new_figure(6, 3.8)
    axes = figure.add_subplot()
    depth, heads = distances_LH.shape
    axes.axhline(whole, color="gray", linestyle="--", linewidth=1, zorder=0)
    axes.set_title(
        "dashed: attention spread evenly over the image", fontsize=9, color="dimgray"
    )
    for head in range(heads):
        style = {
            "color": f"C{head % 10}",
            "label": f"{head + 1}",
            "s": 18,
            "marker": "os^"[head // 10 % 3],
        }
        axes.scatter(np.arange(1, depth + 1), distances_LH[:, head], **style)
    axes.set(xlabel="layer", ylabel="mean attention distance (pixels)")
    axes.set_xlim(0.5, depth + 0.5)
    axes.set_ylim(0, 1.08 * max(whole, np.nanmax(distances_LH, initial=0)))
    axes.xaxis.get_major_locator().set_params(integer=True)
    if heads <= 16:
        axes.legend(
            title="head",
            fontsize=7,
            title_fontsize=8,
            ncols=1 if heads <= 8 else 2,
            loc="center left",
            bbox_to_anchor=(1.01, 0.5),
            frameon=False,
        )
    tidy(axes)
    return figure
