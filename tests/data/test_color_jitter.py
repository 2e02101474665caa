"""Tests vit_jax/data/color_jitter.py."""

import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import smooth_pixels
from vit_jax.data.color_jitter import ColorJitter, turned_hue

PHOTO = Image.fromarray(smooth_pixels(40, 50))
NAMES = ("brightness", "contrast", "saturation", "hue")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("draw", [0.0, 0.3, 0.99])
def test_each_change_is_torchvisions(name, draw):
    functional = pytest.importorskip("torchvision.transforms.functional")
    strengths = dict.fromkeys(NAMES, 0.0) | {name: 0.4}
    draws = [0.5] * 5
    draws[NAMES.index(name)] = draw
    ours = ColorJitter(**strengths)(PHOTO, draws)
    turn = (2 * draw - 1) * 0.4
    adjust = getattr(functional, f"adjust_{name}")
    theirs = adjust(PHOTO, turn if name == "hue" else 1 + turn)
    assert np.abs(np.asarray(ours, int) - np.asarray(theirs, int)).max() <= 1


def test_nothing_changes_where_all_is_off():
    jitter = ColorJitter(brightness=0, contrast=0, saturation=0, hue=0)
    np.testing.assert_array_equal(jitter(PHOTO, [0.9] * 5), PHOTO)


def test_the_order_of_changes_is_drawn():
    jitter = ColorJitter(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.4)
    outcomes = {
        np.asarray(jitter(PHOTO, [0.9, 0.1, 0.9, 0.8, order])).tobytes()
        for order in (np.arange(24) + 0.5) / 24
    }
    assert len(outcomes) > 4


def test_grey_images_keep_their_hue_and_mode():
    grey = PHOTO.convert("L")
    np.testing.assert_array_equal(turned_hue(grey, 0.3), grey)
    jitter = ColorJitter(brightness=0.5, contrast=0.5, saturation=0.5, hue=0.5)
    assert jitter(grey, [0.9] * 5).mode == "L"
