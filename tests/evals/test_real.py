"""ImageNet-ReaL labels."""

import json

import numpy as np
import pytest

from vit_jax.evals.real import read_real, real_accuracy


def names(*numbers):
    return [f"val/n01440764/ILSVRC2012_val_{number:08}.JPEG" for number in numbers]


@pytest.fixture
def real(tmp_path):
    file = tmp_path / "real.json"
    file.write_text(json.dumps([[3], [], [1, 2], [5]]))
    return read_real(file)


def test_images_without_labels_do_not_count_and_any_label_is_right(real):
    # In another order than that of the numbers: image 3 first.
    found = real_accuracy(real, names(3, 1, 2, 4), np.array([2, 3, 9, 4]))
    assert found == {"real_accuracy": 2 / 3, "real_examples": 3}


def test_a_name_without_a_known_number_is_refused(real):
    for name in ("photo.jpg", *names(0), *names(5)):
        with pytest.raises(ValueError, match="is no ImageNet validation image"):
            real_accuracy(real, [name], np.array([0]))


def test_no_image_with_a_label_is_refused(real):
    with pytest.raises(ValueError, match="none of the images has a ReaL label"):
        real_accuracy(real, names(2), np.array([0]))


def test_files_that_are_missing_or_something_else_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="name the published real.json"):
        read_real(tmp_path / "absent.json")
    for text in ("{", "3", '[["a"]]', "[1]"):
        (tmp_path / "real.json").write_text(text)
        with pytest.raises(ValueError, match="must be a JSON list of lists"):
            read_real(tmp_path / "real.json")
