"""Tests vit_jax/models/encoder.py."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.models.encoder import Encoder, Template


class AddOne(nn.Module):
    """A stand-in block that tells its key and rate."""

    @nn.compact
    def __call__(self, x, *, dropout_key, drop_rate):
        if dropout_key is not None:
            x = x + jax.random.normal(dropout_key, x.shape)
        return x + (1 if drop_rate is None else drop_rate)


class Same(nn.Module):
    def __call__(self, x):
        return x


def test_layer_keys_are_folded_from_the_layers_number():
    key, x = jax.random.key(3), jnp.zeros((1, 2, 4))
    encoder = Encoder(Template(AddOne()), 3, Same())
    expected = 3 + sum(
        jax.random.normal(jax.random.fold_in(key, index), x.shape) for index in range(3)
    )
    out = encoder.apply({}, x, dropout_key=key)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_stochastic_depth_rises_linearly_from_zero():
    encoder = Encoder(Template(AddOne()), 4, Same(), stochastic_depth=0.3)
    out = encoder.apply({}, jnp.zeros((1, 1, 1)), dropout_key=None)
    np.testing.assert_allclose(out, 0 + 0.1 + 0.2 + 0.3, rtol=1e-6)
    one = Encoder(Template(AddOne()), 1, Same(), stochastic_depth=0.3)
    assert float(one.apply({}, jnp.zeros((1, 1, 1)), dropout_key=None)[0, 0, 0]) == 0
