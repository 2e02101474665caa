"""Tests vit_jax/layers/position.py."""

import jax
import numpy as np
import pytest
from scipy import ndimage

from vit_jax.layers.position import LearnedPosition, resize_grid


def _table(grid_YXD):
    rows, columns, width = grid_YXD.shape
    return np.asarray(grid_YXD, np.float32).reshape(1, rows * columns, width)


def test_rectangle_resizes_linearly_with_corners_kept():
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
    table = np.concatenate([np.full((1, 1, 4), 99.0), np.zeros((1, 4, 4))], axis=1)
    resized = resize_grid(table, (2, 2), (3, 3), num_prefix=1)
    assert resized.shape == (1, 10, 4)
    np.testing.assert_array_equal(resized[0, 0], 99)
    np.testing.assert_array_equal(resized[0, 1:], 0)


@pytest.mark.parametrize("new", [(24, 24), (7, 20), (1, 3)])
def test_equals_scipy_zoom_of_order_one(new):
    grid = np.random.default_rng(0).normal(size=(14, 14, 8)).astype(np.float32)
    expected = ndimage.zoom(grid, (new[0] / 14, new[1] / 14, 1), order=1)
    out = np.asarray(resize_grid(_table(grid), (14, 14), new)).reshape(*new, 8)
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_corners_and_same_grid_are_bit_equal():
    grid = np.random.default_rng(1).normal(size=(14, 14, 8)).astype(np.float32)
    table = _table(grid)
    out = np.asarray(resize_grid(table, (14, 14), (24, 24))).reshape(24, 24, 8)
    np.testing.assert_array_equal(
        out[[0, 0, -1, -1], [0, -1, 0, -1]], grid[[0, 0, -1, -1], [0, -1, 0, -1]]
    )
    assert resize_grid(table, (14, 14), (14, 14)) is table


def test_differs_from_half_pixel_linear():
    grid = np.random.default_rng(2).normal(size=(14, 14, 64)).astype(np.float32)
    out = np.asarray(resize_grid(_table(grid), (14, 14), (24, 24))).reshape(24, 24, 64)
    other = jax.image.resize(grid, (24, 24, 64), "linear", antialias=False)
    assert 0.11 < np.abs(out - other).mean() < 0.15


def test_every_target_size_is_exact():
    for old in (1, 2, 7, 11, 14, 64):
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
    table = np.arange(old, dtype=np.float32).reshape(1, old, 1)
    for grids in [((old, 1), (new, 1)), ((1, old), (1, new))]:
        out = resize_grid(table, *grids)
        np.testing.assert_array_equal(np.asarray(out)[0, :, 0], expected)


def test_table_of_another_grid_is_refused():
    with pytest.raises(ValueError, match="a table of 5 rows must be 0 prefix rows and"):
        resize_grid(np.zeros((1, 5, 1)), (2, 2), (3, 3))


def test_applying_a_table_to_another_grid_says_how_to_resize():
    module = LearnedPosition(8, num_prefix=1)
    params = module.init(jax.random.key(0), (2, 3))
    assert params["params"]["table"].shape == (1, 7, 8)
    with pytest.raises(
        ValueError, match="must have 13 for a grid of 3 x 4 patches and 1"
    ):
        module.apply(params, (3, 4))


def test_truncated_table_stays_within_two_deviations():
    table = LearnedPosition(64, 0, truncated=True).init(jax.random.key(0), (16, 16))
    table = np.asarray(table["params"]["table"])
    assert np.abs(table).max() < 0.02 * 2.3
    assert abs(table.std() - 0.02) < 1e-3
    wide = LearnedPosition(64, 0).init(jax.random.key(0), (16, 16))
    assert np.abs(wide["params"]["table"]).max() > 0.02 * 3
