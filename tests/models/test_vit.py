"""Tests vit_jax/models/vit.py: properties of whole models."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.models.drawn import redraw
from vit_jax import trees

IMAGES = jax.random.normal(jax.random.key(7), (2, 32, 48, 3))


def _tiny(**overrides):
    overrides = {"depth": 2, "width": 32, "num_heads": 2, "mlp_dim": 48, **overrides}
    model = vit_jax.create_model("cifar10_tiny", **overrides)
    params = jax.eval_shape(model.init, jax.random.key(0), IMAGES)["params"]
    return model, redraw(params)


def _run(model, params, images=IMAGES, **options):
    """Logits, compiled: one operation at a time takes CPU seconds to compile."""
    return jax.jit(partial(model.apply, **options))({"params": params}, images)


@pytest.mark.parametrize("pool", ["cls", "gap"])
def test_rectangles_give_finite_float32_logits(pool):
    model, params = _tiny(pool=pool)
    logits = _run(model, params)
    assert logits.shape == (2, 10) and logits.dtype == jnp.float32
    assert jnp.isfinite(logits).all() and jnp.ptp(logits) > 0


def test_224_pixels_at_patch_16_are_197_tokens_of_768():
    model = vit_jax.create_model("B/16")
    images = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    params = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
    assert params["position"]["table"].shape == (1, 197, 768)


def test_jit_changes_nothing():
    model, params = _tiny()
    plain = model.apply({"params": params}, IMAGES)
    jitted = jax.jit(model.apply)({"params": params}, IMAGES)
    np.testing.assert_allclose(jitted, plain, atol=1e-5)


@pytest.mark.parametrize("pool", ["cls", "gap"])
def test_gradient_reaches_every_parameter(pool):
    model, params = _tiny(pool=pool, representation_size=24)

    def loss(params):
        return jnp.sum(model.apply({"params": params}, IMAGES) ** 2)

    gradients = trees.flatten(jax.jit(jax.grad(loss))(params))
    for name, gradient in gradients.items():
        if name.endswith("attention/key/bias"):  # zero by algebra
            assert np.abs(gradient).max() < 1e-6
        else:
            assert np.abs(gradient).max() > 1e-6, name


def test_bfloat16_stays_near_float32_with_float32_parameters_and_logits():
    model, params = _tiny()
    low = vit_jax.create_model(
        "cifar10_tiny", depth=2, width=32, num_heads=2, mlp_dim=48, dtype=jnp.bfloat16
    )
    shapes = jax.eval_shape(low.init, jax.random.key(0), IMAGES)["params"]
    assert {leaf.dtype for leaf in trees.flatten(shapes).values()} == {
        jnp.dtype("float32")
    }
    logits = _run(low, params)
    assert logits.dtype == jnp.float32
    expected = _run(model, params)
    np.testing.assert_allclose(logits, expected, atol=0.02)
    assert np.abs(logits - expected).max() > 0


def test_training_draws_from_the_dropout_key():
    model, params = _tiny(stochastic_depth=0.5)

    @jax.jit
    def train(seed):
        rngs = {"dropout": jax.random.key(seed)}
        return model.apply({"params": params}, IMAGES, train=True, rngs=rngs)

    np.testing.assert_array_equal(train(0), train(0))
    assert jnp.abs(train(0) - train(1)).max() > 0
    rngs = {"dropout": jax.random.key(0)}
    np.testing.assert_array_equal(_run(model, params), _run(model, params, rngs=rngs))


def test_training_without_noise_equals_evaluation():
    model, params = _tiny(dropout=0.0, attention_dropout=0.0)
    rngs = {"dropout": jax.random.key(0)}
    np.testing.assert_array_equal(
        _run(model, params, train=True, rngs=rngs), _run(model, params)
    )


def test_training_needs_a_dropout_key():
    model, params = _tiny()
    with pytest.raises(
        ValueError, match="train=True needs a key for dropout: pass rngs="
    ):
        model.apply({"params": params}, IMAGES, train=True)


@pytest.mark.parametrize(
    "images", [jnp.zeros((2, 32, 32, 3), jnp.uint8), jnp.zeros((32, 32, 3))]
)
def test_images_must_be_a_batch_of_floats(images):
    model, params = _tiny()
    with pytest.raises(ValueError, match=r"must be \[batch, rows, columns, channels\]"):
        model.apply({"params": params}, images)


def test_another_resolution_than_the_tables_is_refused():
    model, params = _tiny()
    with pytest.raises(
        ValueError, match="position table of 97 rows must have 65 for a g"
    ):
        model.apply({"params": params}, IMAGES[:, :, :32])


def test_initial_values_are_the_papers():
    model = vit_jax.create_model("Ti/16", depth=1)
    params = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 224, 224, 3)))[
        "params"
    ]
    flat = {name: np.asarray(leaf) for name, leaf in trees.flatten(params).items()}
    assert abs(flat["position/table"].std() / 0.02 - 1) < 0.02
    assert abs(flat["encoder/block_0/mlp/hidden/bias"].std() / 1e-6 - 1) < 0.1
    for name in ("prefix/class_token", "head/kernel", "head/bias", "encoder/norm/bias"):
        assert not flat[name].any(), name
    limit = (6 / (192 + 768)) ** 0.5
    assert (
        0.99 * limit < np.abs(flat["encoder/block_0/mlp/hidden/kernel"]).max() <= limit
    )


def test_layers_start_different():
    model, _ = _tiny()
    params = jax.jit(model.init)(jax.random.key(0), IMAGES)["params"]["encoder"]
    one, two = (params[f"block_{i}"]["mlp"]["hidden"]["kernel"] for i in range(2))
    assert jnp.abs(one - two).max() > 0.01
