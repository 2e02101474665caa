"""Tests vit_jax/layers/head.py."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vit_jax.layers.head import DistilledHead, Head, PreLogits


def _logits(head):
    x = jax.random.normal(jax.random.key(0), (4, 8), jnp.bfloat16)
    return head.apply(head.init(jax.random.key(1), x), x)


def test_zero_head_starts_at_the_loss_of_chance():
    logits = _logits(Head(1000))
    assert logits.dtype == jnp.float32
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.arange(4))
    np.testing.assert_allclose(loss, 6.9078, atol=1e-4)


@pytest.mark.parametrize(
    ("bias", "expected"), [(0.0, 693.1472), (-6.9, 7.90728), (-10.0, 10.0454)]
)
def test_head_bias_sets_the_first_sigmoid_loss(bias, expected):
    logits = _logits(Head(1000, bias_init=bias))
    labels = jax.nn.one_hot(jnp.arange(4), 1000)
    loss = optax.sigmoid_binary_cross_entropy(logits, labels).sum(-1)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_head_kernel_follows_its_deviation():
    head = Head(1000, init_std=1e-6)
    kernel = head.init(jax.random.key(0), jnp.zeros((1, 64)))["params"]["kernel"]
    assert abs(float(kernel.std()) / 1e-6 - 1) < 0.02


def test_pre_logits_is_a_tanh_layer():
    x = jax.random.normal(jax.random.key(0), (4, 8))
    variables = PreLogits(5).init(jax.random.key(1), x)
    expected = jnp.tanh(x @ variables["params"]["kernel"])
    np.testing.assert_allclose(PreLogits(5).apply(variables, x), expected, atol=1e-6)


def test_distilled_head_is_the_mean_of_two_heads():
    x = jax.random.normal(jax.random.key(0), (3, 2, 8))
    head = DistilledHead(5, init_std=0.1, bias_init=-1.0)
    params = head.init(jax.random.key(1), x)["params"]
    parts = [
        Head(5).apply({"params": params[name]}, x[:, index])
        for index, name in enumerate(("class_token", "distillation_token"))
    ]
    out = head.apply({"params": params}, x)
    np.testing.assert_allclose(out, sum(parts) / 2, rtol=1e-6)
    assert out.shape == (3, 5) and not np.allclose(*parts)
