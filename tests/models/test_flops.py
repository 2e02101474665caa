"""Tests vit_jax/models/flops.py; parameter counts are in test_variants.py."""

import jax
import jax.numpy as jnp
import pytest

import vit_jax
from vit_jax.models.flops import forward_flops
from vit_jax.models.variants import resolve


def test_b16_takes_the_known_flops():
    """17.6 GMACs at 224 px, as timm's and fvcore's tables have it."""
    assert abs(forward_flops(resolve("B/16", {}), (224, 224)) / 2 - 17.56e9) < 0.05e9


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("Ti/16", {"representation_size": 64}),
        ("Ti/16", {"pool": "map", "mlp": "swiglu", "stem": "conv"}),
        ("Ti/8", {"pool": "gap", "window_size": 7, "global_every": 2}),
        ("R26+S/32", {}),
        ("R50x1", {"stem_width": 32}),
    ],
)
def test_formula_agrees_with_the_compilers_count(name, overrides):
    if "x" not in name:
        overrides = {"depth": 2, **overrides}
    model = vit_jax.create_model(name, **overrides)
    images = jax.ShapeDtypeStruct((1, 224, 160, 3), jnp.float32)
    variables = jax.eval_shape(model.init, jax.random.key(0), images)
    lowered = jax.jit(model.apply).lower(variables, images)
    counted = lowered.cost_analysis()["flops"]
    formula = forward_flops(resolve(name, overrides), (224, 160))
    assert 0.95 * formula < counted < 1.08 * formula
