"""Tests vit_jax/data/published.py on a set prepared here, without TensorFlow."""

import numpy as np
import pytest

from tests.data.pictures import smooth_pixels
from vit_jax.data.decode import decode
from vit_jax.data.published import TfdsSource
from vit_jax.data.sources import open_source


def test_a_prepared_set_is_read_undecoded(tiny_photos):
    source = open_source("tfds:tiny_photos", "train")
    assert source.class_names == ("ant", "bee", "cow")
    assert len(source) == 8
    image, label, name = source[0]
    assert isinstance(image, bytes) and name == "tfds:tiny_photos train 0"
    seeds = [
        number
        for number in range(8)
        if np.array_equal(decode(image, 3), smooth_pixels(10, 14, seed=number))
    ]
    assert len(seeds) == 1 and seeds[0] % 3 == label
    assert sorted(source.labels()) == [0, 0, 0, 1, 1, 1, 2, 2]


def test_labels_are_read_once():
    class Records(list):
        reads = 0

        def __getitem__(self, index):
            self.reads += 1
            return super().__getitem__(index)

    records = Records({"image": b"", "label": number % 2} for number in range(6))
    source = TfdsSource(records, ("a", "b"), "six")
    for _ in range(3):
        np.testing.assert_array_equal(source.labels(), [0, 1, 0, 1, 0, 1])
    assert records.reads == 6


def test_parts_of_splits_are_those_of_tfds(tiny_photos):
    sizes = [
        len(open_source("tfds:tiny_photos", split))
        for split in ("train[:75%]", "train[75%:]", "test")
    ]
    assert sizes == [6, 2, 2]


def test_unknown_sets_and_splits_are_named(tiny_photos):
    with pytest.raises(ValueError, match="tfds:no_such_set: TFDS knows no such set"):
        open_source("tfds:no_such_set", "train")
    with pytest.raises(ValueError, match="no split val; it has "):
        open_source("tfds:tiny_photos", "val")


def test_a_set_without_labels_is_refused(tiny_photos):
    with pytest.raises(ValueError, match="it must have image and label"):
        open_source("tfds:no_labels", "train")


def test_a_set_that_is_not_prepared_is_refused_with_the_command():
    with pytest.raises(
        ValueError,
        match="download_and_prepare.*needs TensorFlow where.*data.source=FOLDER",
    ):
        open_source("tfds:mnist", "train")
