"""Tests vit_jax/plan/tracing.py."""

import jax
import jax.numpy as jnp
import pytest

import vit_jax
from vit_jax.models.flops import forward_flops
from vit_jax.models.variants import resolve
from vit_jax.plan import tracing


def test_products_and_their_gradients_are_counted():
    x, weights = jnp.ones((4, 8)), jnp.ones((3, 8, 8))

    def loss(weights, x):
        def layer(x, weight):
            return jax.checkpoint(lambda x: jnp.tanh(x @ weight))(x), None

        return jax.lax.scan(layer, x, weights)[0].sum()

    traced = jax.jit(jax.grad(loss, argnums=(0, 1))).trace(weights, x)
    # Forward, forward again, and two products backward.
    once = 4 * 2 * 4 * 8 * 8
    assert tracing.flops(traced.jaxpr, loops=False) == once
    assert tracing.flops(traced.jaxpr) == 3 * once


@pytest.mark.parametrize("scan", [False, True])
def test_a_models_count_is_the_formulas(scan):
    fields = {"depth": 2, "stem": "conv"}
    model = vit_jax.create_model("Ti/16", scan=scan, **fields)
    images = jax.ShapeDtypeStruct((1, 64, 64, 3), jnp.float32)
    variables = jax.eval_shape(model.init, jax.random.key(0), images)
    traced = jax.jit(model.apply).trace(variables, images)
    formula = forward_flops(resolve("Ti/16", fields), (64, 64))
    assert tracing.flops(traced.jaxpr) == pytest.approx(formula, rel=0.01)
