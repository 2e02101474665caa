"""Tests vit_jax/layers/mlp.py."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import erf

from vit_jax.layers.mlp import ACTIVATIONS, MlpBlock, SwiGLU, quick_gelu


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
    # Each output is the sum of the hidden layer.
    out = {"kernel": np.ones((16, 8), np.float32), "bias": np.zeros(8, np.float32)}
    variables = {"params": dict(variables["params"]) | {"out": out}}
    plain = np.asarray(module.apply(variables, x, dropout_key=None))
    noisy = np.asarray(module.apply(variables, x, dropout_key=jax.random.key(2)))
    kept = noisy != 0
    assert 0.2 < kept.mean() < 0.8
    # Without the hidden layer's own dropout the rest would be twice the plain sum.
    assert not np.isclose(noisy, 2 * plain)[kept].any()


def test_quick_gelu_is_a_scaled_sigmoid():
    x = np.linspace(-5, 5, 11, dtype=np.float32)
    np.testing.assert_allclose(quick_gelu(x), x / (1 + np.exp(-1.702 * x)), rtol=1e-5)


def test_swiglu_multiplies_by_a_silu_gate():
    x = jax.random.normal(jax.random.key(0), (2, 3, 8))
    module = SwiGLU(16, use_bias=False)
    variables = module.init(jax.random.key(1), x, dropout_key=None)
    gate, hidden, out = (
        variables["params"][name]["kernel"] for name in ("gate", "hidden", "out")
    )
    expected = (jax.nn.silu(x @ gate) * (x @ hidden)) @ out
    np.testing.assert_allclose(
        module.apply(variables, x, dropout_key=None), expected, atol=1e-5
    )


def _flat(params):
    return [
        (f"{layer}/{name}", leaf)
        for layer, group in params.items()
        for name, leaf in group.items()
    ]
