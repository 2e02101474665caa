"""Tests vit_jax/layers/position.py."""

import jax
import numpy as np
import pytest

from vit_jax.layers.position import (
    Layout,
    LearnedPosition,
    LearnedPosition2D,
    RelativeBias,
    SinCosPosition,
    rotate,
    sincos_2d,
)
from vit_jax.layers.resample import resize_grid


def test_applying_a_table_to_another_grid_says_how_to_resize():
    module = LearnedPosition(8, slots=1)
    params = module.init(jax.random.key(0), (2, 3))
    assert params["params"]["table"].shape == (1, 7, 8)
    with pytest.raises(
        ValueError, match="position table of 7 rows must have 13 for a grid of 3 x 4"
    ):
        module.apply(params, (3, 4))


def test_truncated_table_stays_within_two_deviations():
    table = LearnedPosition(64, 0, truncated=True).init(jax.random.key(0), (16, 16))
    table = np.asarray(table["params"]["table"])
    assert 0.0399 < np.abs(table).max() <= 0.04
    assert abs(table.std() / 0.0176 - 1) < 0.02  # cut at two deviations of 0.02
    wide = LearnedPosition(64, 0).init(jax.random.key(0), (16, 16))
    assert np.abs(wide["params"]["table"]).max() > 0.02 * 3


def test_rows_and_columns_take_a_half_of_the_width_each():
    module = LearnedPosition2D(8, slots=1)
    params = module.init(jax.random.key(0), (2, 3))["params"]
    shapes = {name: leaf.shape for name, leaf in params.items()}
    assert shapes == {"rows": (1, 2, 4), "columns": (1, 3, 4), "prefix": (1, 1, 8)}
    table = np.asarray(module.apply({"params": params}, (2, 3)))
    assert table.shape == (1, 7, 8)
    np.testing.assert_array_equal(table[:, 0], params["prefix"][:, 0])
    np.testing.assert_array_equal(table[0, 1 + 1 * 3 + 2, :4], params["rows"][0, 1])
    np.testing.assert_array_equal(table[0, 1 + 1 * 3 + 2, 4:], params["columns"][0, 2])
    with pytest.raises(
        ValueError, match="position rows of 2 rows must have 4 for a grid"
    ):
        module.apply({"params": params}, (4, 3))
    with pytest.raises(ValueError, match="width=7 must be even for learned_2d"):
        LearnedPosition2D(7, 0).init(jax.random.key(0), (2, 3))


def _sincos_by_hand(rows, columns, frequencies):
    table = []
    for row in range(rows):
        for column in range(columns):
            angles = [place * omega for place in (column, row) for omega in frequencies]
            x, y = angles[: len(frequencies)], angles[len(frequencies) :]
            table.append(np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)]))
    return np.array(table)[None]


def test_sincos_tables_of_moco_and_mae_are_their_own():
    """Case 11: narrow widths and rectangles."""
    np.testing.assert_allclose(
        sincos_2d((2, 3), 8, "moco"), _sincos_by_hand(2, 3, [1, 1e-4]), atol=1e-6
    )
    np.testing.assert_allclose(
        sincos_2d((2, 3), 8, "mae"), _sincos_by_hand(2, 3, [1, 1e-2]), atol=1e-6
    )
    assert np.isfinite(sincos_2d((2, 3), 4, "moco")).all()
    with pytest.raises(
        ValueError, match="width=6 must be a multiple of 4 for sincos_2d"
    ):
        sincos_2d((2, 3), 6, "moco")
    module = SinCosPosition(8, "mae")
    np.testing.assert_array_equal(module.apply({}, (2, 3)), sincos_2d((2, 3), 8, "mae"))


def test_relative_bias_depends_on_the_distance_alone():
    module, layout = RelativeBias(num_heads=2), Layout(2, 3, num_prefix=1)
    variables = module.init(jax.random.key(0), layout)
    table = variables["params"]["table"]
    assert table.shape == (1, 3 * 5, 2)
    bias = np.asarray(module.apply(variables, layout))
    assert bias.shape == (1, 2, 7, 7)
    assert not bias[:, :, 0].any() and not bias[:, :, :, 0].any()
    grid = np.asarray(table[0]).reshape(3, 5, 2)
    places = [(row, column) for row in range(2) for column in range(3)]
    for query, (row, column) in enumerate(places, 1):
        for key, (other_row, other_column) in enumerate(places, 1):
            expected = grid[row - other_row + 1, column - other_column + 2]
            np.testing.assert_array_equal(bias[0, :, query, key], expected)


def test_relative_distances_beyond_the_extent_count_as_that_far():
    module = RelativeBias(num_heads=1, extent=2)
    variables = module.init(jax.random.key(0), Layout(2, 2, 0))
    assert variables["params"]["table"].shape == (1, 9, 1)
    bias = module.apply(variables, Layout(1, 4, 0))[0, 0]
    np.testing.assert_array_equal(bias[0, 1:], bias[0, 1])
    assert bias[0, 0] != bias[0, 1] != bias[1, 0]


def test_relative_table_of_another_grid_is_refused_and_can_be_resized():
    module = RelativeBias(num_heads=2)
    table = module.init(jax.random.key(0), Layout(2, 2, 0))["params"]["table"]
    with pytest.raises(ValueError, match="position table of 9 rows must have 25"):
        module.apply({"params": {"table": table}}, Layout(3, 3, 0))
    resized = resize_grid(table, (3, 3), (5, 5))
    bias = module.apply({"params": {"table": resized}}, Layout(3, 3, 0))
    assert bias.shape == (1, 2, 9, 9)
    np.testing.assert_array_equal(resized[0, 12], table[0, 4])  # distance 0 stays


def test_products_of_rotated_heads_depend_on_distances_alone():
    x = np.broadcast_to(np.random.default_rng(0).normal(size=8), (1, 12, 1, 8))
    turned = np.asarray(rotate(x.astype(np.float32), Layout(3, 4, 0)))[0, :, 0]
    products = (turned @ turned.T).reshape(3, 4, 3, 4)
    np.testing.assert_allclose(products[0, 1, 1, 3], products[1, 0, 2, 2], rtol=1e-4)
    assert abs(products[0, 0, 0, 1] - products[0, 0, 1, 0]) > 1e-3
    with pytest.raises(
        ValueError, match="head width=6 must be a multiple of 4 for rope"
    ):
        rotate(np.zeros((1, 12, 1, 6), np.float32), Layout(3, 4, 0))
