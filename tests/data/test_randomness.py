"""Tests vit_jax/data/randomness.py."""

import collections

import numpy as np
import pytest

from vit_jax.data.randomness import philox, shuffled, uniform


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x00000000, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_philox_gives_the_published_answers(word, expected):
    counters = np.full((1, 4), word, np.uint64)
    assert tuple(philox(counters, (word, word))[0].tolist()) == expected


def test_uniform_is_a_function_of_seed_and_position_alone():
    whole = uniform(3, np.arange(100), 7)
    np.testing.assert_array_equal(uniform(3, np.array([40, 7]), 7), whole[[40, 7]])
    np.testing.assert_array_equal(uniform(3, np.arange(100), 3), whole[:, :3])
    assert not np.any(uniform(4, np.arange(100), 7) == whole)


def test_uniform_fills_the_unit_interval_evenly():
    draws = uniform(0, np.arange(20_000), 2)
    assert draws.min() >= 0 and draws.max() < 1
    counts, *_ = np.histogram2d(draws[:, 0], draws[:, 1], bins=5, range=[[0, 1]] * 2)
    # 24 degrees of freedom: 51.2 is the 0.1 % point.
    assert ((counts - 800) ** 2 / 800).sum() < 51.2


def test_positions_above_32_bits_have_draws_of_their_own():
    assert uniform(0, np.array([5]), 1) != uniform(0, np.array([5 + 2**32]), 1)


@pytest.mark.parametrize("num_examples", [1, 2, 10, 255, 256, 257, 1437])
def test_each_epoch_holds_every_example_once(num_examples):
    order = shuffled(0, np.arange(3 * num_examples), num_examples)
    for epoch in order.reshape(3, num_examples):
        assert sorted(epoch) == list(range(num_examples))


def test_epochs_and_seeds_have_orders_of_their_own():
    first, second = shuffled(0, np.arange(2000), 1000).reshape(2, 1000)
    other = shuffled(1, np.arange(1000), 1000)
    for order in (second, other):
        # Two random orders agree in one place on average.
        assert (order == first).sum() < 8
    assert (second == other).sum() < 8


def test_any_stretch_of_the_order_can_be_asked_for():
    whole = shuffled(5, np.arange(300), 70)
    np.testing.assert_array_equal(shuffled(5, np.arange(123, 200), 70), whole[123:200])
    np.testing.assert_array_equal(shuffled(5, np.array([], int), 70), [])


def test_all_orders_of_a_small_set_are_as_likely():
    positions = np.arange(4 * 480)
    orders = shuffled(0, positions, 4).reshape(-1, 4)
    counts = np.array(list(collections.Counter(map(tuple, orders.tolist())).values()))
    assert len(counts) == 24
    # 23 degrees of freedom: 49.7 is the 0.1 % point.
    assert ((counts - 20) ** 2 / 20).sum() < 49.7


def test_millions_of_examples_need_no_table():
    order = shuffled(0, np.arange(10**9, 10**9 + 1000), 14_000_000)
    assert len(set(order.tolist())) == 1000
    assert order.min() >= 0 and order.max() < 14_000_000


@pytest.mark.parametrize("repeats", [2, 3])
@pytest.mark.parametrize("num_examples", [1, 7, 96, 100, 1000])
def test_repeated_examples_share_an_epoch_and_are_no_neighbours(num_examples, repeats):
    positions = np.arange(3 * num_examples)
    order = shuffled(0, positions, num_examples, repeats).reshape(3, num_examples)
    for epoch in order:
        counts = np.unique(epoch, return_counts=True)[1]
        assert counts.max() <= repeats
        # At the end of an epoch some copies are cut off.
        assert num_examples / repeats <= len(counts) < num_examples / repeats + repeats
        near = epoch[1:] == epoch[:-1]
        assert not near[: num_examples - repeats].any()
    if num_examples > 7:
        assert len({tuple(np.unique(epoch)) for epoch in order}) == 3
    some = positions[::-5]
    np.testing.assert_array_equal(
        shuffled(0, some, num_examples, repeats), order.ravel()[some]
    )
