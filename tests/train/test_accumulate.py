"""Gradients by parts."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.train.accumulate import accumulated
from vit_jax.train.losses import shares


def loss(params, batch, key):
    """Weighted sum of squares; `key` would be dropout's."""
    inputs, targets, shares_B = batch
    values_B = ((inputs @ params["kernel"] - targets) ** 2).sum(axis=-1)
    return jnp.sum(values_B * shares_B)


def drawn(size=12):
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(2, size, 3)).astype(np.float32)
    weights = np.array([1, 0, 1, 1] * (size // 4), np.float32)
    params = {"kernel": jnp.asarray(rng.normal(size=(3, 3)), jnp.float32)}
    return params, (jnp.asarray(inputs), jnp.asarray(targets), shares(weights))


@pytest.mark.parametrize("steps", [1, 2, 3, 12])
def test_value_and_gradient_are_those_of_the_whole_batch(steps):
    params, batch = drawn()
    whole = jax.value_and_grad(loss)
    key = jax.random.key(0)
    found = accumulated(whole, steps)(params, batch, key)
    chex.assert_trees_all_close(found, whole(params, batch, key), rtol=1e-5)


def test_examples_of_weight_zero_count_in_no_part():
    params, (inputs, targets, shares_B) = drawn()
    spoilt = jnp.where(shares_B[:, None] == 0, 99.0, inputs)
    by_parts = accumulated(jax.value_and_grad(loss), 3)
    key = jax.random.key(0)
    chex.assert_trees_all_equal(
        by_parts(params, (spoilt, targets, shares_B), key),
        by_parts(params, (inputs, targets, shares_B), key),
    )


def test_each_part_has_a_key_of_its_own():
    def noise(params, batch, key):
        return jax.random.uniform(key, ()), params

    params = {"kernel": jnp.zeros(())}
    key = jax.random.key(3)
    total, _ = accumulated(noise, 4)(params, jnp.zeros(8), key)
    draws = [jax.random.uniform(jax.random.fold_in(key, part), ()) for part in range(4)]
    assert len(set(map(float, draws))) == 4
    np.testing.assert_allclose(total, sum(draws), rtol=1e-6)


def test_parts_take_turns_through_the_batch():
    def total(params, batch, key):
        return batch.max(), params

    seen = []

    def noted(params, batch, key):
        jax.debug.callback(lambda part: seen.append(part.tolist()), batch)
        return total(params, batch, key)

    jax.block_until_ready(accumulated(noted, 2)({}, jnp.arange(6), jax.random.key(0)))
    jax.effects_barrier()
    assert sorted(seen) == [[0, 2, 4], [1, 3, 5]]
