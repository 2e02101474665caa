"""Tests vit_jax/layers/resample.py against SciPy and PyTorch."""

import jax
import numpy as np
import pytest
import scipy.ndimage
import torch

from vit_jax.layers.resample import METHODS, axis_weights, resize_grid

PAIRS = ((14, 24), (24, 14), (7, 61), (11, 15), (3, 2), (2, 1), (1, 4), (16, 5), (5, 5))


def noise(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("f")


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_a_place_sum_to_one(method):
    for old, new in PAIRS:
        weights = axis_weights(old, new, method)
        assert weights.shape == (new, old)
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("old,new", PAIRS)
def test_resizing_equals_torchs(method, old, new):
    """On grids that are no squares; torch does not align corners there."""
    table = noise(1, 2 + old * 6, 8)
    mode, _, antialias = method.partition("_")
    grid = torch.from_numpy(table[:, 2:].reshape(1, old, 6, 8)).permute(0, 3, 1, 2)
    expected = torch.nn.functional.interpolate(
        grid, size=(new, 9), mode=mode, antialias=bool(antialias), align_corners=False
    )
    out = resize_grid(table, (old, 6), (new, 9), num_prefix=2, method=method)
    np.testing.assert_array_equal(out[:, :2], table[:, :2])
    expected = expected.permute(0, 2, 3, 1).reshape(1, -1, 8).numpy()
    np.testing.assert_allclose(out[:, 2:], expected, atol=1e-5)


@pytest.mark.parametrize("old,new", PAIRS)
def test_corners_equal_the_originals_zoom(old, new):
    """Case 5: the original's interpolation."""
    table = noise(1, old * 6, 4)
    factors = (new / old, 9 / 6, 1)
    expected = scipy.ndimage.zoom(table.reshape(old, 6, 4), factors, order=1)
    out = resize_grid(table, (old, 6), (new, 9))
    np.testing.assert_allclose(out[0], expected.reshape(-1, 4), atol=1e-5)


def test_methods_differ_by_as_much_as_is_known():
    """Unit noise, 14 to 24: the choice of the method is not neutral."""
    table = noise(1, 14 * 14, 64)
    corners, bilinear, bicubic = (
        resize_grid(table, (14, 14), (24, 24), method=method) for method in METHODS[:3]
    )
    assert abs(np.abs(corners - bilinear).mean() - 0.129) < 0.01
    assert abs(np.abs(corners - bicubic).mean() - 0.229) < 0.02


@pytest.mark.parametrize("method", METHODS)
def test_the_same_grid_gives_the_same_array(method):
    table = noise(1, 1 + 6, 4)
    same = resize_grid(table, (2, 3), (2, 3), num_prefix=1, method=method)
    assert same is table


def test_unknown_methods_and_empty_grids_are_refused():
    with pytest.raises(ValueError, match="method='nearest' must be one of corners"):
        resize_grid(noise(1, 4, 1), (2, 2), (3, 3), method="nearest")
    with pytest.raises(ValueError, match="grids of 0 and 3 places must have 1 or more"):
        axis_weights(0, 3, "corners")


def _table(grid_YXD):
    rows, columns, width = grid_YXD.shape
    return np.asarray(grid_YXD, np.float32).reshape(1, rows * columns, width)


def test_rectangle_resizes_linearly_with_corners_kept():
    """Case 1: a rectangle's table is resized by its own two sides."""
    rows, columns = np.mgrid[:2, :3]
    table = _table((10 * rows + columns)[..., None])
    resized = resize_grid(table, (2, 3), (4, 6))
    assert resized.shape == (1, 24, 1)
    out = np.asarray(resized).reshape(4, 6)
    i, j = np.mgrid[:4, :6]
    np.testing.assert_allclose(out, 10 * i / 3 + 2 * j / 5, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(out[0], [0, 0.4, 0.8, 1.2, 1.6, 2], rtol=1e-6)
    assert out[-1, -1] == 12


def test_prefix_rows_stay():
    """Case 4: the class token's row is not blended in."""
    table = np.concatenate([np.full((1, 1, 4), 99), np.zeros((1, 4, 4))], axis=1)
    resized = resize_grid(table, (2, 2), (3, 3), num_prefix=1)
    assert resized.shape == (1, 10, 4)
    np.testing.assert_array_equal(resized[0, 0], 99)
    np.testing.assert_array_equal(resized[0, 1:], 0)


@pytest.mark.parametrize("new", [(24, 24), (7, 20), (1, 3)])
def test_equals_scipy_zoom_of_order_one(new):
    grid = np.random.default_rng(0).normal(size=(14, 14, 8)).astype(np.float32)
    expected = scipy.ndimage.zoom(grid, (new[0] / 14, new[1] / 14, 1), order=1)
    out = np.asarray(resize_grid(_table(grid), (14, 14), new)).reshape(*new, 8)
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_corners_and_same_grid_are_bit_equal():
    """Case 5: nothing moves where nothing must."""
    grid = np.random.default_rng(1).normal(size=(14, 14, 8)).astype(np.float32)
    table = _table(grid)
    out = np.asarray(resize_grid(table, (14, 14), (24, 24))).reshape(24, 24, 8)
    np.testing.assert_array_equal(
        out[[0, 0, -1, -1], [0, -1, 0, -1]], grid[[0, 0, -1, -1], [0, -1, 0, -1]]
    )
    np.testing.assert_array_equal(resize_grid(table, (14, 14), (14, 14)), table)


def test_differs_from_half_pixel_linear():
    grid = np.random.default_rng(2).normal(size=(14, 14, 64)).astype(np.float32)
    out = np.asarray(resize_grid(_table(grid), (14, 14), (24, 24))).reshape(24, 24, 64)
    other = jax.image.resize(grid, (24, 24, 64), "linear", antialias=False)
    assert 0.11 < np.abs(out - other).mean() < 0.15


def test_every_target_size_is_exact():
    """Case 6: no row is lost to a factor rounded down."""
    for old in range(1, 65):
        for new in range(1, 65):
            table = np.ones((1, old, 1), np.float32)
            out = resize_grid(table, (1, old), (1, new))
            assert out.shape == (1, new, 1)
            np.testing.assert_allclose(out, 1, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [(1, 4, [0, 0, 0, 0]), (3, 2, [0, 2]), (2, 1, [0]), (1, 1, [0])],
)
def test_degenerate_grids(old, new, expected):
    """Case 7: grids of one row."""
    table = np.arange(old, dtype=np.float32).reshape(1, old, 1)
    for grids in [((old, 1), (new, 1)), ((1, old), (1, new))]:
        out = resize_grid(table, *grids)
        np.testing.assert_array_equal(np.asarray(out)[0, :, 0], expected)


def test_table_of_another_grid_is_refused():
    with pytest.raises(ValueError, match="a table of 5 rows must be 0 prefix rows and"):
        resize_grid(np.zeros((1, 5, 1)), (2, 2), (3, 3))
