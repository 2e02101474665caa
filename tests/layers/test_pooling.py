"""Tests vit_jax/layers/pooling.py."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.layers.pooling import (
    AllTokens,
    ClassAndMeanPool,
    ClassPool,
    DistilledPool,
    MeanPool,
    PrefixTokens,
)


def test_pools_leave_the_other_tokens_out():
    x = jax.random.normal(jax.random.key(0), (2, 5, 3))
    np.testing.assert_array_equal(ClassPool().apply({}, x, 1), x[:, 0])
    np.testing.assert_allclose(
        MeanPool().apply({}, x, 2), x[:, 2:].mean(axis=1), rtol=1e-6
    )


def test_mean_is_summed_in_float32():
    x = jnp.ones((1, 1025, 1), jnp.bfloat16)
    assert float(MeanPool().apply({}, x, 0)[0, 0]) == 1
    assert MeanPool().apply({}, x, 0).dtype == jnp.float32


def test_class_token_starts_at_zero_or_truncated_normal():
    zeros = PrefixTokens(64).init(jax.random.key(0))["params"]["class_token"]
    assert zeros.shape == (1, 1, 64) and not zeros.any()
    drawn = PrefixTokens(64, truncated=True).init(jax.random.key(0))["params"]
    assert 0.01 < float(drawn["class_token"].std()) < 0.03


def test_registers_follow_the_class_token():
    module = PrefixTokens(8, num_registers=3)
    tokens, variables = module.init_with_output(jax.random.key(0))
    assert tokens.shape == (1, 4, 8) and module.num_tokens == 4
    np.testing.assert_array_equal(tokens[:, 1:], variables["params"]["registers"])
    alone = PrefixTokens(8, class_token=False, num_registers=3)
    assert set(alone.init(jax.random.key(0))["params"]) == {"registers"}


def test_no_pooling_keeps_all_tokens():
    x = jnp.ones((2, 5, 3))
    assert AllTokens().apply({}, x, 1) is x


def test_pools_of_two_tokens_and_of_all():
    x = jax.random.normal(jax.random.key(0), (2, 5, 3))
    both = ClassAndMeanPool().apply({}, x, 1)
    np.testing.assert_array_equal(both[:, :3], x[:, 0])
    np.testing.assert_allclose(both[:, 3:], x[:, 1:].mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(DistilledPool().apply({}, x, 2), x[:, :2])
    mean = DistilledPool(mean=True).apply({}, x, 2)
    np.testing.assert_allclose(mean, (x[:, 0] + x[:, 1]) / 2, rtol=1e-6)
    np.testing.assert_allclose(
        MeanPool(prefix=True).apply({}, x, 2), x.mean(axis=1), rtol=1e-6
    )
