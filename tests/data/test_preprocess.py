"""Tests vit_jax/data/preprocess.py."""

import numpy as np
import pytest

from vit_jax.data.preprocess import check, describe, preprocess
from vit_jax.data.transforms import EvalTransform

DESCRIBED = describe(
    EvalTransform((8, 10), "stretch", 0.9, "bilinear"),
    channels=3,
    mean=(0.5,),
    std=(1,),
)


def test_what_is_described_is_sound_and_preprocesses():
    check(DESCRIBED)
    pixels = np.zeros((20, 20, 3), np.uint8)
    assert preprocess(pixels, DESCRIBED).shape == (8, 10, 3)
    assert DESCRIBED["mean"] == [0.5] * 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("image_size", "ab", "image_size='ab' must be"),
        ("image_size", [8, 0], r"image_size=\[8, 0\] must be"),
        ("channels", 2, "channels=2 must be 1 or 3"),
        ("resize", "foo", "resize='foo' must be one of stretch, center"),
        ("crop_fraction", "x", "crop_fraction='x' must be a number above 0"),
        ("interpolation", None, "interpolation=None must be one of bilinear"),
        ("mean", [], r"mean=\[\] must be a list of numbers"),
        ("mean", [0.5, 0.5], "mean must have 3 numbers"),
        ("std", [0, 1, 1], r"std=\[0, 1, 1\] must be a list of numbers above 0"),
    ],
)
def test_what_cannot_be_is_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        check(DESCRIBED | {name: value})


def test_what_is_no_object_is_refused():
    with pytest.raises(ValueError, match="it is a list and must be an object"):
        check([])
