"""The part of an image that the model sees, at the image's resolution."""

import numpy as np
import pytest

from vit_jax.data.preprocess import preprocess
from vit_jax.visualize.views import full_view

PREPROCESSING = {
    "image_size": [16, 16],
    "channels": 3,
    "resize": "center",
    "crop_fraction": 0.8,
    "interpolation": "bilinear",
}


def test_a_middle_cut_keeps_the_pixels_that_it_had():
    pixels = np.random.default_rng(0).integers(0, 256, (50, 90, 3), np.uint8)
    view = full_view(pixels, PREPROCESSING)
    np.testing.assert_array_equal(view, pixels[5:45, 25:65])


def test_a_stretched_image_keeps_its_shape_and_a_huge_one_is_shrunk():
    stretch = {**PREPROCESSING, "resize": "stretch"}
    pixels = np.random.default_rng(0).integers(0, 256, (30, 60, 3), np.uint8)
    np.testing.assert_array_equal(full_view(pixels, stretch), pixels)
    huge = np.zeros((1000, 2048, 3), np.uint8)
    assert full_view(huge, stretch).shape == (500, 1024, 3)


@pytest.mark.parametrize("resize", ["center", "stretch"])
def test_a_part_lies_where_it_lies_in_the_models_input(resize):
    description = {**PREPROCESSING, "resize": resize}
    pixels = np.zeros((64, 128, 3), np.uint8)
    pixels[20:30, 50:70] = 255
    middles = []
    for image in (full_view(pixels, description), preprocess(pixels, description)):
        weight = image[..., 0] / image[..., 0].sum()
        rows, columns = (np.arange(side) + 0.5 for side in weight.shape)
        middles.append(
            (
                (weight.sum(1) * rows).sum() / len(rows),
                (weight.sum(0) * columns).sum() / len(columns),
            )
        )
    np.testing.assert_allclose(*middles, atol=0.01)
