"""Losses against known values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.train import losses


def one_hot(classes=1000):
    return jax.nn.one_hot(jnp.array([3]), classes)


def test_softmax_of_a_zero_head_is_the_log_of_the_classes():
    found = losses.softmax_cross_entropy(jnp.zeros((1, 1000)), one_hot())
    np.testing.assert_allclose(found, [6.9078], atol=1e-4)


@pytest.mark.parametrize(
    ("bias", "value"), [(0, 693.147), (-6.9, 7.9073), (-10, 10.045)]
)
def test_sigmoid_sums_over_classes(bias, value):
    found = losses.sigmoid_cross_entropy(jnp.full((1, 1000), float(bias)), one_hot())
    np.testing.assert_allclose(found, [value], rtol=1e-4)


def test_losses_are_float32_for_bfloat16_logits():
    logits = jnp.zeros((1, 1000), jnp.bfloat16)
    assert losses.softmax_cross_entropy(logits, one_hot()).dtype == jnp.float32
    assert losses.sigmoid_cross_entropy(logits, one_hot()).dtype == jnp.float32


def test_an_example_of_weight_zero_has_no_share():
    np.testing.assert_allclose(
        losses.shares(jnp.array([1.0, 1.0, 0.0, 1.0])), [1 / 3, 1 / 3, 0, 1 / 3]
    )
    np.testing.assert_allclose(losses.shares(jnp.zeros(3)), np.zeros(3))
