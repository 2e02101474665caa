"""A grid of tokens cut into square windows, and put together again."""

import jax
import jax.numpy as jnp
import numpy as np


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
