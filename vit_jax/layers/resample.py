"""A grid sampled at other places: the original code's way, and PyTorch's."""

import numpy as np

METHODS = (
    "corners",
    "bilinear",
    "bicubic",
    "bilinear_antialias",
    "bicubic_antialias",
)


def resize_grid(
    table_1ND: np.ndarray,
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    *,
    num_prefix: int = 0,
    method: str = "corners",
) -> np.ndarray:
    """A position table [1, prefix + N, D] sampled on another grid, on the host.

    The same grid gives the table back as it is, whatever the method.

    Args:
      table_1ND: first the prefix rows (class token, registers), then the grid by rows.
      old_grid: (rows, columns) that the table has.
      new_grid: (rows, columns) wanted.
      num_prefix: rows that are no part of the grid and stay as they are.
      method: one of `METHODS`. "corners" is linear with the
        corners kept, as the original code resizes; timm's and PyTorch's are the others.

    Raises:
      ValueError: the table's length is not `num_prefix` plus the old grid's, or the
        method doesn't exist.
    """
    table_1ND = np.asarray(table_1ND)
    rows, columns = old_grid
    if table_1ND.shape[1] != num_prefix + rows * columns:
        raise ValueError(
            f"a table of {table_1ND.shape[1]} rows must be {num_prefix} prefix rows "
            f"and a grid of {rows} x {columns}."
        )
    down = axis_weights(rows, new_grid[0], method)
    across = axis_weights(columns, new_grid[1], method)
    if tuple(old_grid) == tuple(new_grid):
        return table_1ND
    width = table_1ND.shape[-1]
    grid_YXD = table_1ND[0, num_prefix:].reshape(rows, columns, width)
    grid_YXD = np.einsum("yY,xX,YXD->yxD", down, across, grid_YXD, optimize=True)
    table_1MD = grid_YXD.reshape(1, new_grid[0] * new_grid[1], width)
    return np.concatenate(
        [table_1ND[:, :num_prefix], table_1MD.astype(table_1ND.dtype)], axis=1
    )


def axis_weights(old: int, new: int, method: str) -> np.ndarray:
    """[new, old] weights; the rows sum to 1.

    Args:
      old, new: lengths of the axis.
      method: "corners" samples linearly at `linspace(0, old - 1, new)`: equal to
        `scipy.ndimage.zoom` of order 1, as the original code resizes. The others are
        those of `torch.nn.functional.interpolate` without aligned corners, with or
        without antialiasing.

    Raises:
      ValueError: the method doesn't exist, or a length is less than 1.
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r} must be one of {', '.join(METHODS)}.")
    if min(old, new) < 1:
        raise ValueError(f"grids of {old} and {new} places must have 1 or more.")
    if method == "corners":
        return _spread(np.linspace(0, old - 1, new), old, _tent, reach=1)
    kind, _, antialias = method.partition("_")
    if antialias:
        return _antialiased(old, new, kind)
    at = (np.arange(new) + 0.5) * (old / new) - 0.5
    if kind == "bilinear":
        return _spread(np.clip(at, 0, old - 1), old, _tent, reach=1)
    return _spread(at, old, lambda x: _cubic(x, -0.75), reach=2)


def _tent(x: np.ndarray) -> np.ndarray:
    return np.maximum(0, 1 - np.abs(x))


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Keys 1981, IEEE Transactions on Acoustics 29, equation 4, for any slope a."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _spread(at: np.ndarray, old: int, kernel, reach: int) -> np.ndarray:
    """Weights around each place; what falls off the grid goes to its edge."""
    weights = np.zeros((len(at), old))
    below = np.floor(at).astype(int)
    rows = np.arange(len(at))
    for step in range(1 - reach, reach + 1):
        index = below + step
        share = kernel(at - index)
        np.add.at(weights, (rows, np.clip(index, 0, old - 1)), share)
    return weights


def _antialiased(old: int, new: int, kind: str) -> np.ndarray:
    """As Pillow does: the kernel stretched over the area of a new place."""
    scale = old / new
    stretch = max(scale, 1.0)
    centres = (np.arange(new) + 0.5) * scale
    x = (np.arange(old)[None] + 0.5 - centres[:, None]) / stretch
    weights = _tent(x) if kind == "bilinear" else _cubic(x, -0.5)
    return weights / weights.sum(axis=1, keepdims=True)
