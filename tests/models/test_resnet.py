"""Tests vit_jax/models/resnet.py; parity with timm is in tests/parity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models.drawn import redraw
from vit_jax import trees
from vit_jax.models.resnet import ResNetStem, norm_groups

IMAGES = jax.random.normal(jax.random.key(7), (2, 17, 32, 3))


def _small(**overrides):
    model = vit_jax.create_model(
        "R50x1", stem_units=(1, 1), num_classes=10, **overrides
    )
    shapes = jax.eval_shape(model.init, jax.random.key(0), IMAGES)["params"]
    return model, redraw(shapes)


def test_gradient_reaches_every_parameter():
    model, params = _small()

    def loss(params):
        logits = model.apply({"params": params}, IMAGES, train=True)
        assert logits.shape == (2, 10) and logits.dtype == jnp.float32
        return jnp.sum(logits**2)

    for name, gradient in trees.flatten(jax.jit(jax.grad(loss))(params)).items():
        assert np.abs(gradient).max() > 1e-6, name


def test_no_classes_gives_features():
    model, params = _small()
    bare = vit_jax.create_model("R50x1", stem_units=(1, 1), num_classes=0)
    features = jax.jit(bare.apply)({"params": params}, IMAGES)
    expected = features @ params["head"]["kernel"] + params["head"]["bias"][None]
    logits = jax.jit(model.apply)({"params": params}, IMAGES)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_projection_can_be_left_out_only_where_channels_fit():
    options = {"depth": 1, "stem_units": (1,), "stem_projection": False}
    model = vit_jax.create_model("R50+B/16", width=256, num_heads=4, **options)
    shapes = jax.eval_shape(model.init, jax.random.key(0), IMAGES)["params"]
    assert "projection" not in shapes["stem"]
    model = vit_jax.create_model("R50+B/16", **options)
    with pytest.raises(ValueError, match="stem_projection=False needs .* width=256"):
        jax.eval_shape(model.init, jax.random.key(0), IMAGES)


def test_a_hybrid_names_the_nearest_size_in_pixels():
    stem = ResNetStem((), patch_size=8, width=64)
    assert stem.grid_shape((224, 253)) == (7, 8)
    with pytest.raises(ValueError, match="nearest: 224 or 256 columns"):
        stem.grid_shape((224, 250))


def test_no_group_of_a_norm_is_a_single_channel():
    assert [norm_groups(mid) for mid in (32, 64, 96, 128)] == [16, 32, 32, 32]
