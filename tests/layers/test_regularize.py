"""Tests vit_jax/layers/regularize.py."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.layers.regularize import (
    LayerScale,
    dropout,
    patch_dropout,
    stochastic_depth,
)


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


def test_patch_dropout_keeps_prefix_and_order():
    x = jnp.tile(jnp.arange(11.0)[None, :, None], (4, 1, 2))
    kept = np.asarray(patch_dropout(x, 0.7, jax.random.key(0), num_prefix=1))
    assert kept.shape == (4, 1 + 3, 2)
    assert not kept[:, 0].any() and (np.diff(kept[:, :, 0]) > 0).all()
    assert len({tuple(row) for row in kept[:, :, 0]}) > 1
    assert patch_dropout(x, 0.99, jax.random.key(0), num_prefix=1).shape == (4, 2, 2)
    assert patch_dropout(x, 0.7, None, num_prefix=1) is x


def test_layer_scale_starts_at_its_value():
    x = jax.random.normal(jax.random.key(0), (2, 3, 4))
    out, variables = LayerScale(0.1).init_with_output(jax.random.key(0), x)
    np.testing.assert_allclose(out, 0.1 * x, rtol=1e-6)
    assert variables["params"]["gamma"].shape == (4,)
