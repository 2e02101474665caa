"""Heat over images, at the images' own resolution."""

import numpy as np

from vit_jax.visualize.figures import enlarged
from vit_jax.visualize.overlays import draw_heads, draw_rollout


def test_a_map_is_enlarged_between_the_middles_of_patches():
    found = enlarged(np.array([[0.0, 1.0]]), (2, 8))
    expected = [0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1]
    np.testing.assert_allclose(found, [expected] * 2, atol=1e-6)


def test_the_brightest_pixels_are_those_of_the_patch_that_weighs_most():
    image = np.full((80, 120, 3), 128, np.uint8)
    map_YX = np.full((2, 3), 0.02)
    map_YX[1, 2] = 0.9
    axes = draw_rollout([image], [map_YX], ["costs $5 and $6"]).axes
    shown = axes[1].images[0].get_array()
    assert shown.shape == (80, 120, 3)
    bright = shown.sum(axis=-1)
    row, column = np.unravel_index(bright.argmax(), bright.shape)
    assert row >= 40 and column >= 80
    assert axes[1].get_title() == "at most 90.0% a patch"


def test_small_and_grey_images_are_shown_with_square_pixels():
    image = np.zeros((8, 8, 1), np.uint8)
    image[0, 0] = 255
    axes = draw_rollout([image] * 3, [np.full((2, 2), 0.25)] * 3, "abc").axes
    shown = axes[0].images[0].get_array()
    assert shown.shape == (256, 256, 3)
    assert (shown[:32, :32] == 255).all() and (shown[32:] == 0).all()


def test_heads_share_one_scale():
    image = np.zeros((64, 64, 3), np.uint8)
    maps = np.stack([np.full((2, 2), 0.25), np.array([[1.0, 0], [0, 0]])])
    axes = [axis for axis in draw_heads(image, maps).axes if axis.images]
    assert len(axes) == 3
    even, planted = (axis.images[0].get_array().sum(axis=-1) for axis in axes[1:])
    assert even.max() < planted.max()
    np.testing.assert_allclose(even, even[0, 0])
