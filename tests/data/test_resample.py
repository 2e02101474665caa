"""Tests vit_jax/data/resample.py."""

import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import encoded, smooth_pixels
from vit_jax.data.decode import open_picture
from vit_jax.data.resample import drafted_part, resize, sampled


def test_sampling_a_whole_image_at_its_size_gives_it_back():
    pixels = smooth_pixels(24, 32)
    picture = open_picture(pixels, 3)
    np.testing.assert_array_equal(sampled(picture, (0, 0, 24, 32), (24, 32)), pixels)
    part = sampled(picture, (5, 7, 10, 12), (10, 12))
    np.testing.assert_array_equal(part, pixels[5:15, 7:19])


@pytest.mark.parametrize("channels", [1, 3])
def test_sampling_is_bilinear_interpolation_of_the_part(channels):
    picture = open_picture(smooth_pixels(90, 120), channels)
    ours = sampled(picture, (11, 20, 70, 83), (60, 50))
    part = picture.pixels()[11:81, 20:103].astype(float)
    for axis, size in enumerate((60, 50)):
        old = part.shape[axis]
        points = (np.arange(size) + 0.5) * old / size - 0.5
        part = np.apply_along_axis(
            lambda line, at=points: np.interp(at, np.arange(len(line)), line),
            axis,
            part,
        )
    assert np.abs(ours - part).max() <= 1


def test_a_part_is_at_least_one_pixel_and_within_the_picture():
    picture = open_picture(smooth_pixels(64, 64), 3)
    assert sampled(picture, (63.4, 63.6, 0.5, 0.3), (4, 4)).shape == (4, 4, 3)
    assert drafted_part((63, 63), (0, 0, 63, 63), (8, 8)) == (
        4,
        slice(0, 16),
        slice(0, 16),
    )


def test_sampling_enlarges_too():
    pixels = smooth_pixels(10, 12)
    large = sampled(open_picture(pixels, 3), (0, 0, 10, 12), (40, 48))
    ours = resize(pixels, (40, 48)).astype(int)
    assert np.abs(large - ours).max() <= 2


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize(
    ("size", "decibels"),
    [((24, 32), 30), ((48, 64), 39), ((60, 80), 46), ((200, 300), 48)],
)
def test_scaled_decoding_is_near_the_full_decode(kind, size, decibels):
    pixels = smooth_pixels(500, 640)
    picture = open_picture(encoded(Image.fromarray(pixels), kind, quality=95), 3)
    quick = sampled(picture, (20, 30, 450, 560), size).astype(float)
    shrink, *part = drafted_part(picture.shape, (20, 30, 450, 560), size)
    starts = [shrink * side.start for side in part]
    box = (*starts, *(shrink * (side.stop - side.start) for side in part))
    full = resize(picture.pixels(), size, box).astype(float)
    noise = np.mean((quick - full) ** 2)
    assert 10 * np.log10(255**2 / noise) > decibels
