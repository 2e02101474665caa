"""Tests vit_jax/layers/regularize.py."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.layers.regularize import dropout, stochastic_depth


def test_without_a_key_nothing_changes():
    x = jnp.ones((4, 3, 2))
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, jax.random.key(0)) is x
    assert stochastic_depth(x, 0.5, None) is x


def test_dropout_keeps_mean_and_dtype():
    x = jnp.ones((100, 100), jnp.bfloat16)
    y = dropout(x, 0.2, jax.random.key(0))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.unique(np.asarray(y, np.float32)), [0, 1.25])
    assert abs(float(y.astype(jnp.float32).mean()) - 1) < 0.02


def test_stochastic_depth_drops_whole_examples():
    x = jnp.ones((1000, 3, 2))
    y = np.asarray(stochastic_depth(x, np.float32(0.25), jax.random.key(0)))
    assert set(map(len, map(np.unique, y))) == {1}
    kept = y[:, 0, 0] != 0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(y[kept], 1 / 0.75, rtol=1e-6)


def test_stochastic_depth_takes_a_traced_rate():
    x = jax.random.normal(jax.random.key(1), (8, 3, 2))
    key = jax.random.key(0)
    np.testing.assert_allclose(
        jax.jit(stochastic_depth)(x, jnp.float32(0.5), key),
        stochastic_depth(x, np.float32(0.5), key),
        rtol=1e-6,
    )
