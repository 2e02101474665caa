"""Attention distance of hand-made maps."""

import numpy as np

from vit_jax.layers.position import Layout
from vit_jax.visualize.distance import draw_distances, mean_distances, pixel_distances


def test_distances_are_in_pixels_on_any_rectangle():
    distances = pixel_distances((2, 3), (10, 5))
    assert distances.shape == (6, 6)
    assert distances[0, 2] == 10  # two columns
    assert distances[0, 3] == 10  # one row
    assert distances[0, 4] == np.hypot(10, 5)


def test_attention_to_oneself_is_at_0_and_to_the_neighbour_at_a_patch():
    # Two patches side by side, 16 pixels apart; head 1 looks at itself, head 2 at the
    # other, head 3 gives a quarter to the other.
    own, other = np.eye(2), np.eye(2)[::-1]
    weights = np.stack([own, other, 0.75 * own + 0.25 * other])
    found = mean_distances([weights, weights[::-1]], Layout(1, 2, 0), (16, 16))
    np.testing.assert_allclose(found, [[0, 16, 4], [4, 16, 0]])


def test_prefix_tokens_are_left_out_and_the_rest_is_scaled():
    weights = np.zeros((1, 4, 4))
    weights[0, :2, 0] = 1  # class token and register look at the class token
    weights[0, 2] = [0.5, 0.3, 0.1, 0.1]  # half of what goes to patches goes 8 away
    weights[0, 3] = [0.9, 0.1, 0, 0]  # gives nothing to patches
    found = mean_distances([weights], Layout(1, 2, 2), (8, 8))
    np.testing.assert_allclose(found, [[4]])


def test_a_head_that_looks_at_prefix_tokens_alone_has_no_distance():
    weights = np.zeros((1, 3, 3))
    weights[..., 0] = 1
    assert np.isnan(mean_distances([weights], Layout(1, 2, 1), (8, 8))).all()


def test_even_attention_has_the_mean_distance():
    layout = Layout(3, 4, 1)
    weights = np.full((1, 13, 13), 1 / 13)
    found = mean_distances([weights], layout, (16, 16))
    np.testing.assert_allclose(found, pixel_distances(layout.grid, (16, 16)).mean())


def test_the_picture_has_a_point_for_each_head_and_layer():
    distances = np.arange(12.0).reshape(3, 4)
    axes = draw_distances(distances, whole=6.0).axes[0]
    points = np.array([dots.get_offsets() for dots in axes.collections])
    np.testing.assert_array_equal(points[:, :, 1], distances.T)
    np.testing.assert_array_equal(points[0, :, 0], [1, 2, 3])
    assert "pixels" in axes.get_ylabel()
