"""Tests vit_jax/data/labels.py."""

import time

import numpy as np
import pytest

from vit_jax.data.labels import balanced_order, class_list, class_order


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


def test_each_class_is_drawn_in_an_order_of_its_own():
    # Example i of class c is number 5 * i + c.
    order = balanced_order(np.arange(500) % 5, seed=0)
    orders = [order[order % 5 == label] // 5 for label in range(5)]
    assert all(sorted(drawn) == list(range(100)) for drawn in orders)
    assert len({tuple(drawn) for drawn in orders}) == 5


def test_empty_classes_and_odd_sizes_are_placed_by_the_formula():
    labels = np.array([4, 1, 1, 4, 1])
    np.testing.assert_array_equal(labels[balanced_order(labels, 3)], [1, 4, 1, 4, 1])
    assert balanced_order(np.array([7]), 0).tolist() == [0]


def test_many_classes_cost_no_more_than_few():
    labels = np.arange(200_000) % 20_000
    began = time.perf_counter()
    order = balanced_order(labels, seed=0)
    # Going through the labels once a class takes ten seconds.
    assert time.perf_counter() - began < 3
    assert len(np.unique(labels[order[:20_000]])) == 20_000


def test_a_list_of_classes_is_taken_in_its_order_and_holds_none_twice():
    assert class_list(["b", "a"]) == ("b", "a")
    with pytest.raises(ValueError, match="class 'a' must be listed once; rename one"):
        class_list(["a", "b", "a"])


@pytest.mark.parametrize("name", ["a\nb", "", "a\r"])
def test_a_class_name_must_be_one_line(name):
    with pytest.raises(ValueError, match="must be one line of text; rename it"):
        class_order({"a", name})
