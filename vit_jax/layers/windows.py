"""Attention in square windows of the grid of tokens."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.layers.dot_product import dot_product_attention
from vit_jax.layers.position import Layout


def windowed_attention(
    query_BNHK: jax.Array,
    key_BNHK: jax.Array,
    value_BNHK: jax.Array,
    layout: Layout,
    size: int,
    *,
    bias: jax.Array | None = None,
    dropout: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Attention [B, N, H, K] in windows of `size` x `size` patches, linear in N.

    A patch sees its window and the prefix tokens; a prefix token sees all. That is full
    attention under `window_mask`.

    Args:
      query_BNHK, key_BNHK, value_BNHK: of all tokens.
      layout: how they lie.
      size: side of a window in patches.
      bias: [1, H, size^2, size^2], among the patches of one window.
      dropout, dropout_key: as in `dot_product_attention`.

    Source: Li et al. 2022, arXiv 2203.16527, section 3.
    """
    first, grid = layout.num_prefix, layout.grid
    keys = (None, None) if dropout_key is None else jax.random.split(dropout_key)
    query_WNHK, key_WMHK, value_WMHK = (
        partition(x[:, first:].reshape(-1, *grid, *x.shape[2:]), size)
        for x in (query_BNHK, key_BNHK, value_BNHK)
    )
    batch = query_BNHK.shape[0]
    per_image = query_WNHK.shape[0] // batch
    key_WMHK, value_WMHK = (
        jnp.concatenate([jnp.repeat(x[:, :first], per_image, axis=0), y], axis=1)
        for x, y in ((key_BNHK, key_WMHK), (value_BNHK, value_WMHK))
    )
    padding = padding_bias(grid, size)
    if padding is not None:
        padding = np.tile(padding, (batch, 1, 1, 1))
        bias = padding if bias is None else bias + padding
    if bias is not None:
        bias = jnp.pad(bias, ((0, 0), (0, 0), (0, 0), (first, 0)))
    patches_WNHK = dot_product_attention(
        query_WNHK,
        key_WMHK,
        value_WMHK,
        bias=bias,
        dropout=dropout,
        dropout_key=keys[0],
    )
    patches_BYXHK = merge(patches_WNHK, size, grid)
    patches_BNHK = patches_BYXHK.reshape(batch, -1, *patches_BYXHK.shape[3:])
    if not first:
        return patches_BNHK
    prefix_BNHK = dot_product_attention(
        query_BNHK[:, :first],
        key_BNHK,
        value_BNHK,
        dropout=dropout,
        dropout_key=keys[1],
    )
    return jnp.concatenate([prefix_BNHK, patches_BNHK], axis=1)


def partition(grid_BYXHK: jax.Array, size: int) -> jax.Array:
    """Windows [B * W, size * size, H, K], padded with zeros where the grid ends.

    Windows go row by row, and so do the tokens in each.
    """
    batch, rows, columns, *rest = grid_BYXHK.shape
    down, right = -rows % size, -columns % size
    x = jnp.pad(grid_BYXHK, ((0, 0), (0, down), (0, right), (0, 0), (0, 0)))
    high, wide = (rows + down) // size, (columns + right) // size
    x = x.reshape(batch, high, size, wide, size, *rest).swapaxes(2, 3)
    return x.reshape(batch * high * wide, size * size, *rest)


def merge(windows: jax.Array, size: int, grid: tuple[int, int]) -> jax.Array:
    """The grid [B, rows, columns, H, K] whose `partition` gives `windows`."""
    rows, columns = grid
    high, wide = -(-rows // size), -(-columns // size)
    rest = windows.shape[2:]
    x = windows.reshape(-1, high, wide, size, size, *rest).swapaxes(2, 3)
    return x.reshape(-1, high * size, wide * size, *rest)[:, :rows, :columns]


def padding_bias(grid: tuple[int, int], size: int) -> np.ndarray | None:
    """[W, 1, 1, size * size], minus infinity at padded tokens; None without padding."""
    rows, columns = grid
    if rows % size == 0 and columns % size == 0:
        return None
    high, wide = -(-rows // size), -(-columns // size)
    padded = np.full((high * size, wide * size), -np.inf, np.float32)
    padded[:rows, :columns] = 0
    x = padded.reshape(high, size, wide, size).swapaxes(1, 2)
    return x.reshape(high * wide, 1, 1, size * size)


def window_mask(grid: tuple[int, int], size: int, num_prefix: int) -> np.ndarray:
    """Who sees whom under windows, True or False, [prefix + N, prefix + N].

    A patch sees its own window and the prefix tokens; a prefix token sees all.
    """
    rows, columns = np.mgrid[: grid[0], : grid[1]] // size
    window = (rows * (grid[1] // size + 1) + columns).reshape(-1)
    mask = np.ones((num_prefix + window.size,) * 2, bool)
    mask[num_prefix:, num_prefix:] = window[:, None] == window[None, :]
    return mask
