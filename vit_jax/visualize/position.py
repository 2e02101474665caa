"""How alike the positions are for the model, on any rectangle."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from flax import linen as nn

from vit_jax.layers.position import Layout, RelativeBias, rotate
from vit_jax.visualize.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Longest side of the picture in positions; of larger ones every second, third, …
_LONGEST = 1200
SIMILARITY = "cosine similarity"
BIAS = "bias of attention, mean over heads and layers"


def position_maps(
    model: nn.Module, params: Mapping[str, Any], grid: tuple[int, int], depth: int
) -> tuple[np.ndarray, str]:
    """([Y, X, Y, X] every position with all others, what the numbers are).

    Tables, learned or fixed, give the cosine similarity of their rows; rotary
    positions that of one vector turned to both places; relative positions their bias.

    Args:
      model: a Vision Transformer.
      grid: (rows, columns) of patches.
      depth: of its encoder.

    Raises:
      ValueError: it has no positions.
    """
    if model.position is not None:
        # A fixed table has no parameters.
        variables = {"params": params.get("position", {})}
        table_1ND = np.asarray(model.position.apply(variables, grid), np.float64)
        return cosine_similarity(table_1ND[0, -grid[0] * grid[1] :], grid), SIMILARITY
    attention = model.encoder.blocks[0].module.attention
    if attention.relative is not None:
        return _bias(model, params, grid, depth), BIAS
    if attention.rotary:
        kernel_DHK = params["encoder"]["block_0"]["attention"]["query"]["kernel"]
        ones = np.ones((1, grid[0] * grid[1], 1, kernel_DHK.shape[-1]), np.float32)
        turned_1N1K = np.asarray(rotate(jax.numpy.asarray(ones), Layout(*grid, 0)))
        return cosine_similarity(turned_1N1K[0, :, 0], grid), SIMILARITY
    raise ValueError("the model has no positions")


def cosine_similarity(table_ND: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """[Y, X, Y, X], -1 to 1, of the rows of a table; rows go by the grid's rows.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, figure 7 centre.
    """
    lengths_N1 = np.linalg.norm(table_ND, axis=1, keepdims=True)
    unit_ND = table_ND / np.maximum(lengths_N1, 1e-12)
    return (unit_ND @ unit_ND.T).reshape(*grid, *grid)


def mosaic(maps_YXYX: np.ndarray, longest: int = _LONGEST) -> tuple[np.ndarray, int]:
    """(a grid of grids [Y * (Y + 1) - 1, X * (X + 1) - 1] with NaN between, stride).

    The stride tells that every so many-th position is shown, so that no side is longer
    than `longest`, unless one position alone is.
    """
    rows, columns = maps_YXYX.shape[:2]
    stride = 1
    while max(-(-side // stride) * (side + 1) for side in (rows, columns)) > longest:
        if stride >= max(rows, columns):
            break
        stride += 1
    maps = maps_YXYX[stride // 2 :: stride, stride // 2 :: stride]
    padded = np.pad(maps, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    high, wide = maps.shape[:2]
    picture = padded.swapaxes(1, 2).reshape(high * (rows + 1), wide * (columns + 1))
    return picture[:-1, :-1], stride


def draw_position(maps_YXYX: np.ndarray, quantity: str) -> "Figure":
    """The grid of grids: the tile at row i, column j belongs to the position there.

    Raises:
      ValueError: matplotlib is not installed.
    """
    rows, columns = maps_YXYX.shape[:2]
    picture, stride = mosaic(maps_YXYX)
    width = 5.0 * min(1.6, max(0.6, picture.shape[1] / picture.shape[0]))
    height = width * picture.shape[0] / picture.shape[1]
    figure = new_figure(width + 1.2, height + 0.7)
    axes = figure.add_subplot()
    top = float(np.nanmax(np.abs(picture))) or 1.0
    low, high = (-1, 1) if quantity == SIMILARITY else (-top, top)
    kind = {"cmap": "viridis"} if quantity == SIMILARITY else {"cmap": "RdBu_r"}
    shown = axes.imshow(
        picture, vmin=low, vmax=high, interpolation="nearest", aspect="equal", **kind
    )
    for axis, side, cell in ((axes.yaxis, rows, rows), (axes.xaxis, columns, columns)):
        places = np.arange(stride // 2, side, stride)
        step = max(1, len(places) // 8)
        ticks = np.arange(len(places)) * (cell + 1) + (cell - 1) / 2
        axis.set_ticks(ticks[::step], [str(place + 1) for place in places[::step]])
    axes.set(xlabel="column of the position", ylabel="row of the position")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.colorbar(shown, ax=axes, label=quantity, shrink=0.8)
    return figure


def _bias(
    model: nn.Module, params: Mapping[str, Any], grid: tuple[int, int], depth: int
) -> np.ndarray:
    """[Y, X, Y, X]: the bias that a patch at (y, x) gives to one at (Y, X).

    Windows are drawn as if each patch saw all: their table reaches as far as a window.
    """
    blocks, total = model.encoder.blocks, 0.0
    for layer in range(depth):
        relative: RelativeBias = blocks[layer % len(blocks)].module.attention.relative
        own = params["encoder"][f"block_{layer}"]["attention"]["relative"]
        bias_1HNN = relative.apply({"params": own}, Layout(*grid, 0))
        total = total + np.asarray(bias_1HNN, np.float64)[0].mean(axis=0)
    return (total / depth).reshape(*grid, *grid)
