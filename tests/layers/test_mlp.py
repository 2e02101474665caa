"""Tests vit_jax/layers/mlp.py."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import erf

from vit_jax.layers.mlp import ACTIVATIONS, MlpBlock


def test_exact_and_tanh_gelu_differ_as_known():
    x = np.linspace(-6, 6, 20001)
    exact = x * (1 + erf(x / np.sqrt(2))) / 2
    np.testing.assert_allclose(
        ACTIVATIONS["exact"](jnp.float32(x)), exact, rtol=1e-6, atol=1e-6
    )
    difference = np.abs(np.asarray(ACTIVATIONS["tanh"](jnp.float32(x))) - exact)
    assert abs(difference.max() - 4.735e-4) < 1e-6
    assert abs(abs(x[difference.argmax()]) - 2.70) < 0.01


def test_dropout_follows_both_layers():
    x = jax.random.normal(jax.random.key(0), (2, 3, 8))
    module = MlpBlock(16, dropout=0.5)
    variables = module.init(jax.random.key(1), x, dropout_key=None)
    names = {name: leaf.shape for name, leaf in _flat(variables["params"])}
    assert names == {
        "hidden/kernel": (8, 16),
        "hidden/bias": (16,),
        "out/kernel": (16, 8),
        "out/bias": (8,),
    }
    out = module.apply(variables, x, dropout_key=jax.random.key(2))
    assert 0 < (np.asarray(out) == 0).mean() < 1


def _flat(params):
    return [
        (f"{layer}/{name}", leaf)
        for layer, group in params.items()
        for name, leaf in group.items()
    ]
