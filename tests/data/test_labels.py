"""Tests vit_jax/data/labels.py."""

import numpy as np
import pytest

from vit_jax.data.labels import balanced_order, class_order


def test_classes_are_ordered_by_bytes_on_any_system():
    names = {"10", "2", "1", "b", "B", "é", "a b"}
    assert class_order(names) == ("1", "10", "2", "B", "a b", "b", "é")


def test_every_stretch_of_the_balanced_order_holds_classes_in_proportion():
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    order = balanced_order(labels, seed=0)
    assert sorted(order) == list(range(1000))
    for start in (0, 90, 700):
        counts = np.bincount(labels[order[start : start + 200]], minlength=3)
        np.testing.assert_allclose(counts, [120, 60, 20], atol=1)


def test_the_balanced_order_is_drawn_by_the_seed():
    labels = np.arange(500) % 5
    first, again, other = (balanced_order(labels, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first == other).mean() < 0.1


@pytest.mark.parametrize("name", ["a\nb", "", "a\r"])
def test_a_class_name_must_be_one_line(name):
    with pytest.raises(ValueError, match="must be one line of text; rename it"):
        class_order({"a", name})
