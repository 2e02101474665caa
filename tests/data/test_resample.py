"""Tests vit_jax/data/resample.py."""

import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import encoded, smooth_pixels
from vit_jax.data.decode import open_picture
from vit_jax.data.resample import resize, sampled


def test_sampling_a_whole_image_at_its_size_gives_it_back():
    pixels = smooth_pixels(24, 32)
    picture = open_picture(pixels, 3)
    np.testing.assert_array_equal(sampled(picture, (0, 0, 24, 32), (24, 32)), pixels)
    part = sampled(picture, (5, 7, 10, 12), (10, 12))
    np.testing.assert_array_equal(part, pixels[5:15, 7:19])


@pytest.mark.parametrize("channels", [1, 3])
def test_sampling_is_opencvs_bilinear_interpolation(channels):
    cv2 = pytest.importorskip("cv2")
    picture = open_picture(smooth_pixels(90, 120), channels)
    box = (11, 20, 70, 83)
    ours = sampled(picture, box, (60, 50)).astype(int)
    cut = np.ascontiguousarray(picture.pixels()[11:81, 20:103])
    theirs = cv2.resize(cut, (50, 60), interpolation=cv2.INTER_LINEAR)
    # Edges aside, where OpenCV sees the cut and this the whole image.
    difference = np.abs(ours - theirs.reshape(ours.shape))[1:-1, 1:-1]
    assert difference.max() <= 1


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
    box = (20, 30, 450, 560)
    quick = sampled(picture, box, size).astype(float)
    full = resize(picture.pixels(), size, box).astype(float)
    noise = np.mean((quick - full) ** 2)
    assert 10 * np.log10(255**2 / noise) > decibels
