"""Tests vit_jax/data/contact_sheet.py."""

import numpy as np

from vit_jax.data.contact_sheet import contact_sheet


def sheet(captions, size=20):
    images = [np.zeros((size, size, 3), np.uint8) for _ in captions]
    return np.asarray(contact_sheet([("title", images, captions)]))


def test_nine_images_take_two_blocks():
    one, two = sheet(["a"] * 8), sheet(["a"] * 9)
    assert one.shape[1] == two.shape[1]
    # A margin above; below it two blocks rather than one.
    assert two.shape[0] - 6 == 2 * (one.shape[0] - 6)


def test_a_second_line_makes_room_for_itself():
    one, two = sheet(["a", "b"]), sheet(["a", "b\nc"])
    assert two.shape[0] == one.shape[0] + 14
    assert (two[-20:-6, 156:] < 128).any()
    assert not (two[-20:-6, :150] < 128).any()


def test_a_long_name_stays_under_its_own_image():
    # The caption's line, right of the first cell and left of the second one's.
    line = sheet(["m" * 200, ""])[-20:-6]
    assert (line[:, :150] < 128).any()
    assert not (line[:, 151:] < 128).any()


def test_grey_and_oblong_images_keep_their_aspect():
    drawn = np.asarray(contact_sheet([("t", [np.zeros((10, 20, 1), np.uint8)], [""])]))
    dark = (drawn[20:164, 6:150] < 10).all(axis=-1)
    assert dark[:72].all()
    assert not dark[72:].any()
