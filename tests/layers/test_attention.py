"""Tests vit_jax/layers/attention.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.layers.attention import Attention
from vit_jax.layers.dot_product import attention_weights, dot_product_attention
from vit_jax.layers.position import Layout

LAYOUT = Layout(rows=1, columns=4, num_prefix=1)


def _qkv(shape=(2, 5, 3, 4), dtype=jnp.float32):
    keys = jax.random.split(jax.random.key(0), 3)
    return [jax.random.normal(key, shape, dtype) for key in keys]


def test_equals_jax_own():
    query, key, value = _qkv()
    np.testing.assert_allclose(
        dot_product_attention(query, key, value),
        jax.nn.dot_product_attention(query, key, value),
        atol=1e-6,
    )


def test_weights_are_float32_and_rows_sum_to_one():
    query, key, _ = _qkv(dtype=jnp.bfloat16)
    weights = attention_weights(query, key)
    assert weights.dtype == jnp.float32 and weights.shape == (2, 3, 5, 5)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_output_keeps_the_values_dtype():
    assert dot_product_attention(*_qkv(dtype=jnp.bfloat16)).dtype == jnp.bfloat16


def test_bias_of_minus_infinity_masks():
    query, key, value = _qkv()
    bias = jnp.zeros((1, 1, 5, 5)).at[..., 2:].set(-jnp.inf)
    np.testing.assert_allclose(
        dot_product_attention(query, key, value, bias=bias),
        dot_product_attention(query, key[:, :2], value[:, :2]),
        atol=1e-6,
    )


def test_dropout_zeroes_weights_only_with_a_key():
    query, key, _ = _qkv((1, 50, 2, 4))
    one_hot = jnp.broadcast_to(jnp.eye(50)[None, :, None], (1, 50, 2, 50))
    plain = dot_product_attention(query, key, one_hot, dropout=0.5)
    np.testing.assert_allclose(plain.sum(-1), 1, rtol=1e-5)
    dropped = dot_product_attention(
        query, key, one_hot, dropout=0.5, dropout_key=jax.random.key(1)
    )
    kept = dropped > 0
    assert 0.45 < kept.mean() < 0.55
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-5)


def test_module_is_the_papers_equation():
    x = jax.random.normal(jax.random.key(2), (2, 5, 12))
    module = Attention(num_heads=3)
    params = module.init(jax.random.key(3), x, LAYOUT, dropout_key=None)["params"]
    params = jax.tree.map(
        lambda leaf: jax.random.normal(jax.random.key(leaf.size), leaf.shape), params
    )

    def project(name):
        return jnp.einsum("bnd,dhk->bnhk", x, params[name]["kernel"]) + params[name][
            "bias"
        ].reshape(1, 1, 3, 4)

    heads = jax.nn.dot_product_attention(*map(project, ("query", "key", "value")))
    expected = jnp.einsum("bnhk,hkd->bnd", heads, params["out"]["kernel"])
    expected += params["out"]["bias"].reshape(1, 1, 12)
    out, weights = module.apply({"params": params}, x, LAYOUT, dropout_key=None)
    assert weights is None
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_kernels_are_xavier_uniform_over_the_whole_matrix():
    x = jnp.zeros((1, 2, 64))
    module = Attention(num_heads=4)
    params = module.init(jax.random.key(0), x, LAYOUT, dropout_key=None)
    limit = (6 / 128) ** 0.5
    for name in ("query", "key", "value", "out"):
        kernel = np.asarray(params["params"][name]["kernel"])
        assert 0.98 * limit < np.abs(kernel).max() <= limit
        assert not np.any(np.asarray(params["params"][name]["bias"]))


def test_width_must_divide_into_heads():
    with pytest.raises(ValueError, match="width=10 must be a multiple of num_heads=3"):
        Attention(num_heads=3).init(
            jax.random.key(0), jnp.zeros((1, 2, 10)), LAYOUT, dropout_key=None
        )
