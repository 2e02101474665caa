"""Attention drawn over images."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vit_jax.visualize.figures import as_rgb, overlay, panels, plain, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = 26


def draw_rollout(
    images: Sequence[np.ndarray], maps: Sequence[np.ndarray], names: Sequence[str]
) -> "Figure":
    """Each image beside itself under its map, at the image's own resolution.

    Args:
      images: uint8 [Y, X, C], of any size; what the model sees of each.
      maps: [rows, columns] of each, summing to 1.
      names: a line over each.

    Raises:
      ValueError: matplotlib is not installed.
    """
    pairs = 1 if len(images) == 1 else 2
    cell = 3.2 if len(images) <= 2 else 2.2
    aspect = max(image.shape[0] / image.shape[1] for image in images)
    figure, axes = panels(2 * len(images), 2 * pairs, cell, aspect)
    for index, (image, map_YX, name) in enumerate(
        zip(images, maps, names, strict=True)
    ):
        before, after = axes[2 * index : 2 * index + 2]
        before.imshow(as_rgb(image))
        before.set_title(plain(shortened(name, _NAME)), fontsize=9)
        after.imshow(overlay(image, map_YX, map_YX.max()))
        after.set_title(_peak(map_YX), fontsize=9)
    return figure


def draw_heads(image_YXC: np.ndarray, maps_HYX: np.ndarray) -> "Figure":
    """One image under the map of each head of a layer; all heads share one scale.

    Raises:
      ValueError: matplotlib is not installed.
    """
    count = len(maps_HYX) + 1
    # As few empty places as can be.
    columns = max(range(4, 7), key=lambda columns: (-(-count % columns), columns))
    aspect = image_YXC.shape[0] / image_YXC.shape[1]
    figure, axes = panels(count, columns if count > 5 else count, 2.1, aspect)
    axes[0].imshow(as_rgb(image_YXC))
    axes[0].set_title("image", fontsize=9)
    top = maps_HYX.max()
    for head, map_YX in enumerate(maps_HYX):
        axes[head + 1].imshow(overlay(image_YXC, map_YX, top))
        axes[head + 1].set_title(f"head {head + 1}, {_peak(map_YX)}", fontsize=9)
    return figure


def _peak(map_YX: np.ndarray) -> str:
    return f"at most {map_YX.max():.1%} a patch"
