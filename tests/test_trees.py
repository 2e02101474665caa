"""Tests vit_jax/trees.py."""

import numpy as np
import pytest
from flax.core import FrozenDict

from vit_jax import trees

TREE = {
    "stem": {"kernel": np.zeros((2, 3)), "bias": np.zeros(3)},
    "encoder": {"block_0": {"mlp": {"kernel": np.zeros((3, 5))}}},
}


def test_flatten_joins_names_and_unflatten_is_its_inverse():
    flat = trees.flatten(TREE)
    assert list(flat) == ["stem/kernel", "stem/bias", "encoder/block_0/mlp/kernel"]
    again = trees.unflatten(flat)
    assert again["encoder"]["block_0"]["mlp"]["kernel"] is flat[list(flat)[2]]
    assert trees.flatten(again).keys() == flat.keys()


def test_frozen_dict_gives_plain_dicts():
    named = trees.map_named(lambda name, leaf: name, FrozenDict(TREE))
    assert type(named["encoder"]["block_0"]) is dict
    assert named["stem"]["bias"] == "stem/bias"


@pytest.mark.parametrize("key", ["a/b", 3])
def test_ambiguous_key_is_refused(key):
    with pytest.raises(ValueError, match="must be a string without '/'"):
        trees.flatten({"x": {key: 1}})


def test_leaf_that_is_also_a_folder_is_refused():
    with pytest.raises(ValueError, match="lies below 'a', which is a leaf"):
        trees.unflatten({"a": 1, "a/b": 2})
    with pytest.raises(ValueError, match="'a' is a leaf and a folder"):
        trees.unflatten({"a/b": 2, "a": 1})


def test_first_matching_rule_wins():
    values = trees.match(
        TREE, [("encoder/.*", "first"), (".*/kernel", "second")], default="rest"
    )
    assert trees.flatten(values) == {
        "stem/kernel": "second",
        "stem/bias": "rest",
        "encoder/block_0/mlp/kernel": "first",
    }


def test_mask_needs_the_whole_name():
    mask = trees.mask(TREE, ["stem/.*", ".*block_0/mlp/kernel"])
    assert list(trees.flatten(mask).values()) == [True, True, True]
    with pytest.raises(ValueError, match="pattern 'stem' matches none of the 3 names"):
        trees.mask(TREE, ["stem"])


def test_rule_whose_names_are_all_taken_is_no_error():
    values = trees.match(TREE, [(".*", 1), ("stem/bias", 2)])
    assert set(trees.flatten(values).values()) == {1}


def test_count_adds_up_elements():
    assert trees.count(TREE) == 6 + 3 + 15
    assert trees.count(TREE, ["stem/.*", "stem/bias"]) == 9
    assert trees.count({"scalar": np.float32(1)}) == 1
