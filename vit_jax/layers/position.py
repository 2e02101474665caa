"""Where a token lies: position tables and their resizing."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


def resize_grid(
    table_1ND: jax.Array,
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    *,
    num_prefix: int = 0,
) -> jax.Array:
    """A position table [1, prefix + N, D] sampled on another grid.

    Linear between the old positions with the corners kept: equal to
    `scipy.ndimage.zoom` of order 1, as the original code resizes. The same grid gives
    the same numbers.

    Args:
      table_1ND: first the prefix rows (class token, registers), then the grid by rows.
      old_grid: (rows, columns) that the table has.
      new_grid: (rows, columns) wanted.
      num_prefix: rows that are no part of the grid and stay as they are.

    Raises:
      ValueError: the table's length is not `num_prefix` plus the old grid's.
    """
    rows, columns = old_grid
    if table_1ND.shape[1] != num_prefix + rows * columns:
        raise ValueError(
            f"a table of {table_1ND.shape[1]} rows must be {num_prefix} prefix rows "
            f"and a grid of {rows} x {columns}."
        )
    if tuple(old_grid) == tuple(new_grid):
        return table_1ND
    width = table_1ND.shape[-1]
    grid_YXD = table_1ND[0, num_prefix:].reshape(rows, columns, width)
    grid_YXD = jnp.einsum(
        "yY,xX,YXD->yxD",
        _linear_weights(rows, new_grid[0]),
        _linear_weights(columns, new_grid[1]),
        grid_YXD,
        precision=jax.lax.Precision.HIGHEST,
    )
    table_1MD = grid_YXD.reshape(1, new_grid[0] * new_grid[1], width)
    return jnp.concatenate(
        [table_1ND[:, :num_prefix], table_1MD.astype(table_1ND.dtype)], axis=1
    )


def _linear_weights(old: int, new: int) -> np.ndarray:
    """[new, old] weights that sample at `linspace(0, old - 1, new)`."""
    at = np.linspace(0, old - 1, new)
    below = np.minimum(np.floor(at).astype(int), old - 1)
    above = np.minimum(below + 1, old - 1)
    weights = np.zeros((new, old))
    np.add.at(weights, (np.arange(new), below), 1 - (at - below))
    np.add.at(weights, (np.arange(new), above), at - below)
    return weights.astype(np.float32)


class LearnedPosition(nn.Module):
    """A free vector for every position, `table` [1, prefix + N, D].

    Args:
      width: D.
      num_prefix: rows of the table that belong to prefix tokens.
      truncated: draws from a truncated normal rather than the paper's normal.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equation 1 and appendix D.4.
    """

    width: int
    num_prefix: int
    truncated: bool = False

    @nn.compact
    def __call__(self, grid: tuple[int, int]) -> jax.Array:
        """The table [1, prefix + N, D] for a grid of (rows, columns).

        Raises:
          ValueError: the parameters' table belongs to a grid of another length.
        """
        rows = self.num_prefix + grid[0] * grid[1]
        self._check_length(rows, grid)
        normal = (
            nn.initializers.truncated_normal
            if self.truncated
            else nn.initializers.normal
        )
        return self.param("table", normal(stddev=0.02), (1, rows, self.width))

    def _check_length(self, rows: int, grid: tuple[int, int]) -> None:
        if not self.has_variable("params", "table"):
            return
        given = self.get_variable("params", "table").shape[1]
        if given != rows:
            raise ValueError(
                f"position table of {given} rows must have {rows} for a grid of "
                f"{grid[0]} x {grid[1]} patches and {self.num_prefix} prefix tokens; "
                "resize it with vit_jax.layers.position.resize_grid."
            )
