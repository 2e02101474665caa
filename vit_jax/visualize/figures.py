"""What all pictures share: empty figures, heat over an image, PNG bytes."""

import io
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vit_jax.layers.resample import axis_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A small image is shown with visible pixels, at about this many to a side.
_SMALL = 64
_SHOWN = 256


def require() -> None:
    """Nothing, where pictures can be drawn.

    Raises:
      ValueError: matplotlib, an optional extra, is not installed.
    """
    _figure_class()


def _figure_class() -> type["Figure"]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(
            "pictures need matplotlib; install it with pip install 'vit_jax[plots]'."
        ) from error
    return Figure


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches; it belongs to no window and no global state.

    Raises:
      ValueError: see `require`.
    """
    return _figure_class()(figsize=(width, height), layout="constrained")


def panels(
    count: int, columns: int, cell: float, aspect: float = 1.0
) -> tuple["Figure", list["Axes"]]:
    """A figure of `count` empty panels without ticks, row by row.

    Args:
      columns: most panels of a row.
      cell: a panel's width in inches.
      aspect: height of a panel over its width.

    Raises:
      ValueError: see `new_figure`.
    """
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    # A title over a panel, and one over all, take their room beside the panels.
    figure = new_figure(columns * cell + 0.2, rows * (aspect * cell + 0.35) + 0.2)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for panel in axes:
        panel.set_axis_off()
    return figure, axes[:count]


def plain(text: str) -> str:
    """The text as it is: matplotlib would read formulas between dollar signs."""
    return text.replace("$", r"\$")


def shortened(text: str, length: int) -> str:
    """The text, or its first `length` characters with an ellipsis for the last."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def as_rgb(image_YXC: np.ndarray) -> np.ndarray:
    """uint8 [Y, X, 3] from one or three channels; small images with square pixels."""
    image_YXC = np.broadcast_to(image_YXC, (*image_YXC.shape[:2], 3))
    side = max(image_YXC.shape[:2])
    times = max(1, _SHOWN // side) if side < _SMALL else 1
    return image_YXC.repeat(times, axis=0).repeat(times, axis=1)


def enlarged(map_YX: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """A map of patches at an image's [Y, X], linear between the patches' middles."""
    down = axis_weights(map_YX.shape[0], shape[0], "bilinear")
    across = axis_weights(map_YX.shape[1], shape[1], "bilinear")
    return down @ map_YX @ across.T


def overlay(image_YXC: np.ndarray, map_YX: np.ndarray, top: float) -> np.ndarray:
    """float [Y, X, 3], 0 to 1: the image in grey under the map's colours.

    Args:
      image_YXC: uint8, of any size.
      map_YX: shares of attention, one a patch.
      top: the share that gets the brightest colour.
    """
    from matplotlib import colormaps

    image_YX3 = as_rgb(image_YXC) / 255
    heat_YX = enlarged(map_YX, image_YX3.shape[:2]) / max(top, 1e-12)
    colour_YX3 = colormaps["inferno"](heat_YX.clip(0, 1))[..., :3]
    return 0.45 * image_YX3.mean(axis=-1, keepdims=True) + 0.55 * colour_YX3


def to_png(figure: "Figure", dpi: int = 110) -> bytes:
    """The figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(stream, format="png", dpi=dpi)
    return stream.getvalue()


def tidy(axes: Any) -> None:
    """A light grid, and no frame where there is no scale."""
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
