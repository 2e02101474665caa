"""Positions with known likeness."""

import numpy as np
import pytest

from tests.visualize.models import GRID, tiny
from vit_jax.visualize import position


def test_a_repeated_row_is_as_like_as_itself():
    table = np.eye(6)
    table[4] = 3 * table[1]
    maps = position.cosine_similarity(table, (2, 3))
    expected = np.eye(6)
    expected[1, 4] = expected[4, 1] = 1
    np.testing.assert_allclose(maps.reshape(6, 6), expected, atol=1e-12)
    # Row 1 of the table is the position in row 0, column 1; row 4 that below it.
    assert maps[0, 1, 1, 1] == pytest.approx(1)


@pytest.mark.parametrize(
    "kind", ["learned_1d", "learned_2d", "sincos_2d", "sincos_2d_mae", "rope"]
)
def test_every_kind_on_a_rectangle_is_likest_to_itself(kind):
    model, params = tiny(position=kind)
    maps, quantity = position.position_maps(model, params, GRID, 2)
    assert maps.shape == (*GRID, *GRID)
    assert quantity == position.SIMILARITY
    flat = maps.reshape(24, 24)
    np.testing.assert_allclose(np.diag(flat), 1, rtol=1e-5)
    np.testing.assert_allclose(flat, flat.T, atol=1e-5)
    assert flat.max() <= 1 + 1e-5
    assert (flat.argmax(axis=1) == np.arange(24)).all()


def test_rope_depends_on_distances_alone():
    model, params = tiny(position="rope")
    maps, _ = position.position_maps(model, params, GRID, 2)
    np.testing.assert_allclose(maps[0, 0, :3, :4], maps[1, 2, 1:, 2:], atol=1e-5)


def test_the_class_token_has_no_place_in_the_table():
    model, params = tiny(num_registers=2)
    maps, _ = position.position_maps(model, params, GRID, 2)
    table = np.asarray(params["position"]["table"], np.float64)[0]
    expected = position.cosine_similarity(table[3:], GRID)
    np.testing.assert_allclose(maps, expected, atol=1e-6)


@pytest.mark.parametrize("window", [{}, {"window_size": 2, "global_every": 2}])
def test_relative_positions_give_the_mean_bias(window):
    model, params = tiny(position="relative", **window)
    maps, quantity = position.position_maps(model, params, GRID, 2)
    assert quantity == position.BIAS
    tables = [
        np.asarray(params["encoder"][f"block_{i}"]["attention"]["relative"]["table"])
        for i in (0, 1)
    ]
    # Distance 0 is the middle of a table.
    middle = np.mean([t[0, t.shape[1] // 2].mean() for t in tables])
    np.testing.assert_allclose(maps[2, 3, 2, 3], middle, rtol=1e-5)


def test_without_positions_there_is_nothing_to_draw():
    model, params = tiny(position="none")
    with pytest.raises(ValueError, match="has no positions"):
        position.position_maps(model, params, GRID, 2)


def test_a_mosaic_has_a_tile_a_position_with_gaps_between():
    maps = np.arange(36.0).reshape(2, 3, 2, 3)
    picture, stride = position.mosaic(maps)
    assert stride == 1
    assert picture.shape == (2 * 3 - 1, 3 * 4 - 1)
    np.testing.assert_array_equal(picture[3:5, 4:7], maps[1, 1])
    assert np.isnan(picture[2]).all() and np.isnan(picture[:, [3, 7]]).all()


def test_a_large_mosaic_shows_some_positions_whole():
    maps = np.random.default_rng(0).random((6, 6, 6, 6))
    picture, stride = position.mosaic(maps, longest=22)
    assert stride == 2
    assert picture.shape == (20, 20)
    np.testing.assert_array_equal(picture[:6, 7:13], maps[1, 3])
    assert position.mosaic(maps, longest=1)[0].shape == (6, 6)


def test_the_picture_numbers_rows_and_columns():
    figure = position.draw_position(np.zeros((2, 3, 2, 3)), position.SIMILARITY)
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "3"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "2"]
    assert figure.axes[1].get_ylabel() == position.SIMILARITY
