"""Where a token lies: position tables, biases by distance, rotations."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


class Layout(NamedTuple):
    """How tokens lie: first the prefix, then a grid of patches row by row."""

    rows: int
    columns: int
    num_prefix: int

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.rows, self.columns


class LearnedPosition(nn.Module):
    """A free vector for every position, `table` [1, slots + N, D].

    Args:
      width: D.
      slots: rows of the table that belong to prefix tokens.
      truncated: draws from a truncated normal rather than the paper's normal.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equation 1 and appendix D.4.
    """

    width: int
    slots: int
    truncated: bool = False

    @nn.compact
    def __call__(self, grid: tuple[int, int]) -> jax.Array:
        """The table [1, slots + N, D] for a grid of (rows, columns).

        Raises:
          ValueError: the parameters' table belongs to a grid of another length.
        """
        init = _normal(self.truncated)
        length = self.slots + grid[0] * grid[1]
        return _table(self, "table", init, (1, length, self.width), grid)


class LearnedPosition2D(nn.Module):
    """A free half vector for every row and one for every column, concatenated.

    Parameters `rows` [1, R, D / 2], `columns` [1, C, D / 2], and `prefix` [1, slots, D]
    where prefix tokens have positions.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, appendix D.4.
    """

    width: int
    slots: int
    truncated: bool = False

    @nn.compact
    def __call__(self, grid: tuple[int, int]) -> jax.Array:
        """The table [1, slots + N, D] for a grid of (rows, columns).

        Raises:
          ValueError: the width is odd, or the parameters belong to another grid.
        """
        if self.width % 2:
            raise ValueError(
                f"width={self.width} must be even for learned_2d positions."
            )
        init, half = _normal(self.truncated), self.width // 2
        rows = _table(self, "rows", init, (1, grid[0], half), grid)
        columns = _table(self, "columns", init, (1, grid[1], half), grid)
        table_YXD = jnp.concatenate(
            [
                jnp.repeat(rows[0, :, None], grid[1], axis=1),
                jnp.repeat(columns, grid[0], axis=0),
            ],
            axis=-1,
        )
        table_1ND = table_YXD.reshape(1, -1, self.width)
        if not self.slots:
            return table_1ND
        prefix = self.param("prefix", init, (1, self.slots, self.width))
        return jnp.concatenate([prefix, table_1ND], axis=1)


class SinCosPosition(nn.Module):
    """Fixed sines and cosines, [1, N, D]; prefix tokens have none.

    `form` is "moco" (MoCo-v3, big_vision) or "mae".
    """

    width: int
    form: str

    def __call__(self, grid: tuple[int, int]) -> jax.Array:
        """The table for a grid of (rows, columns)."""
        return jnp.asarray(sincos_2d(grid, self.width, self.form))


def sincos_2d(grid: tuple[int, int], width: int, form: str) -> np.ndarray:
    """Sines and cosines of column and row, [1, N, D], at any rectangle.

    A quarter of the width each: sin of the column, cos of the column, sin of the row,
    cos of the row, at w = D / 4 frequencies: 10000^-(i / (w - 1)) where `form` is
    "moco", 10000^-(i / w) where it is "mae".

    Raises:
      ValueError: the width is no multiple of 4.

    Source: Chen et al. 2021, arXiv 2104.02057, and He et al. 2022, arXiv 2111.06377, in
    the forms of big_vision's and MAE's code.
    """
    if width % 4:
        raise ValueError(
            f"width={width} must be a multiple of 4 for sincos_2d positions."
        )
    count = width // 4
    last = max(count - 1, 1) if form == "moco" else count
    omega = 10000 ** -(np.arange(count) / last)
    rows, columns = np.mgrid[: grid[0], : grid[1]].reshape(2, -1, 1) * omega
    parts = [np.sin(columns), np.cos(columns), np.sin(rows), np.cos(rows)]
    return np.concatenate(parts, axis=1)[None].astype(np.float32)


class RelativeBias(nn.Module):
    """A free number for every head and distance, [1, H, M, M], to add before softmax.

    `table` [1, (2 R - 1) * (2 C - 1), H] is a grid of distances that `resize_grid`
    resizes; R and C are the grid's, or `extent` both ways, beyond which distances count
    as that far. Pairs with a prefix token, which has no place, get 0 (so the last
    layer's table is idle where a class token is read alone).

    Source: Shaw et al. 2018, arXiv 1803.02155, as a bias on two axes as in Liu et al.
    2021, arXiv 2103.14030, equation 4.
    """

    num_heads: int
    extent: int = 0

    @nn.compact
    def __call__(self, layout: Layout) -> jax.Array:
        """The bias among all tokens of a layout, M = prefix + rows * columns.

        Raises:
          ValueError: the parameters' table belongs to another grid.
        """
        reach = (self.extent, self.extent) if self.extent else layout.grid
        shape = (1, (2 * reach[0] - 1) * (2 * reach[1] - 1), self.num_heads)
        table = _table(self, "table", _normal(truncated=True), shape, reach)
        rows = _distances(layout.rows, reach[0])[:, None, :, None]
        columns = _distances(layout.columns, reach[1])[None, :, None, :]
        index_YXYX = rows * (2 * reach[1] - 1) + columns
        patches = layout.rows * layout.columns
        bias_NMH = jnp.take(table[0], index_YXYX.reshape(patches, patches), axis=0)
        before = (layout.num_prefix, 0)
        return jnp.pad(bias_NMH.transpose(2, 0, 1), ((0, 0), before, before))[None]


def rotate(x_BNHK: jax.Array, layout: Layout) -> jax.Array:
    """Queries or keys turned by their row and column; prefix tokens stay.

    Neighbouring channels form the pairs: the first half of them turn with the row, the
    second half with the column, at w = K / 4 frequencies 10000^-(i / w) each, so that
    products depend on distances alone.

    Raises:
      ValueError: the width of a head is no multiple of 4.

    Source: Su et al. 2021, arXiv 2104.09864, equation 34, on two axes.
    """
    head_dim = x_BNHK.shape[-1]
    if head_dim % 4:
        raise ValueError(f"head width={head_dim} must be a multiple of 4 for rope.")
    count = head_dim // 4
    omega = 10000 ** -(jnp.arange(count, dtype=jnp.float32) / count)
    rows = jnp.arange(layout.rows)[:, None, None] * omega[None, None]
    columns = jnp.arange(layout.columns)[None, :, None] * omega[None, None]
    shape = (*layout.grid, count)
    angle_YXK = jnp.concatenate(
        [jnp.broadcast_to(rows, shape), jnp.broadcast_to(columns, shape)], axis=-1
    )
    angle_1N1K = angle_YXK.reshape(1, -1, 1, 2 * count)
    prefix, patches = jnp.split(x_BNHK, [layout.num_prefix], axis=1)
    even, odd = patches[..., 0::2], patches[..., 1::2]
    sin, cos = jnp.sin(angle_1N1K), jnp.cos(angle_1N1K)
    turned = jnp.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)
    turned = turned.reshape(patches.shape).astype(x_BNHK.dtype)
    return jnp.concatenate([prefix, turned], axis=1)


def _distances(length: int, reach: int) -> jax.Array:
    """[length, length] of i - j, cut at the reach, counted from 0."""
    index = jnp.arange(length)
    return jnp.clip(index[:, None] - index[None, :], 1 - reach, reach - 1) + reach - 1


def _normal(truncated: bool) -> nn.initializers.Initializer:
    init = nn.initializers.truncated_normal if truncated else nn.initializers.normal
    return init(stddev=0.02)


def _table(
    module: nn.Module,
    name: str,
    init: nn.initializers.Initializer,
    shape: tuple[int, ...],
    grid: tuple[int, int],
) -> jax.Array:
    """The parameter, once its length is known to fit.

    Raises:
      ValueError: its length is another, with the way out.
    """
    if module.has_variable("params", name):
        given = module.get_variable("params", name).shape
        if given[1] != shape[1]:
            raise ValueError(
                f"position {name} of {given[1]} rows must have {shape[1]} for a grid "
                f"of {grid[0]} x {grid[1]} patches; resize it with "
                "vit_jax.layers.resample.resize_grid."
            )
    return module.param(name, init, shape)
