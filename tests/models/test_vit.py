"""Tests vit_jax/models/vit.py: properties of whole models."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import vit_jax
from tests.models.drawn import redraw
from vit_jax import trees
from vit_jax.models.variants import resolve

IMAGES = jax.random.normal(jax.random.key(7), (2, 32, 48, 3))


def _tiny(**overrides):
    overrides = {"depth": 2, "width": 32, "num_heads": 2, "mlp_dim": 48, **overrides}
    model = vit_jax.create_model("cifar10_tiny", **overrides)
    params = jax.eval_shape(model.init, jax.random.key(0), IMAGES)["params"]
    return model, redraw(params)


def _run(model, params, images=IMAGES, **options):
    """Logits, compiled: one operation at a time takes CPU seconds to compile."""
    return jax.jit(partial(model.apply, **options))({"params": params}, images)


KINDS = resolve("cifar10_tiny", {}).__dataclass_fields__["position"].metadata["choices"]


@pytest.mark.parametrize("position", KINDS)
def test_every_position_kind_takes_rectangles(position):
    model, params = _tiny(position=position, depth=1)
    assert jnp.isfinite(_run(model, params)).all()


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


@pytest.mark.parametrize(
    "overrides",
    [
        {"representation_size": 24},
        {
            "pool": "gap",
            "num_registers": 2,
            "position": "learned_2d",
            "layer_scale": 0.1,
        },
        {"pool": "map", "position": "relative", "qk_norm": True, "mlp": "swiglu"},
        {
            "position": "relative",
            "window_size": 4,
            "global_every": 2,
            "norm": "rms",
            "pool": "gap",
        },
        pytest.param(
            {
                "stem": "conv",
                "position": "rope",
                "first_norm": True,
                "final_norm": "pooled",
            },
            marks=pytest.mark.slow,
        ),
        {
            "stem": "resnet",
            "stem_width": 32,
            "stem_units": (1, 1),
            "patch_size": 1,
            "pool": "none",
        },
        pytest.param(
            {
                "stem_norm": True,
                "inner_norm": True,
                "position": "sincos_2d_mae",
                "pool": "distilled",
                "num_registers": 1,
                "head_init_std": 0.02,
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"pool": "cls_gap", "position": "none", "gelu": "quick", "mlp": "swiglu"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_gradient_reaches_every_parameter(overrides):
    model, params = _tiny(**overrides)

    def loss(params):
        return jnp.sum(model.apply({"params": params}, IMAGES) ** 2)

    # What adds one number to all scores of a query leaves its softmax as it is.
    zero_by_algebra = ("/key/bias",)
    if overrides.get("qk_norm"):
        zero_by_algebra = ("/key_norm/bias", "pool/key/bias")
    if overrides.get("position") == "rope":
        zero_by_algebra = ()
    gradients = trees.flatten(jax.jit(jax.grad(loss))(params))
    for name, gradient in gradients.items():
        if name.endswith(zero_by_algebra):
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
    model = vit_jax.create_model("Ti/16", depth=2)
    params = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 224, 224, 3)))[
        "params"
    ]
    flat = {name: np.asarray(leaf) for name, leaf in trees.flatten(params).items()}
    assert abs(flat["position/table"].std() / 0.02 - 1) < 0.02
    assert abs(flat["encoder/block_0/mlp/hidden/bias"].std() / 1e-6 - 1) < 0.1
    for name in ("prefix/class_token", "head/kernel", "head/bias", "encoder/norm/bias"):
        assert not flat[name].any(), name
    kernels = [flat[f"encoder/block_{i}/mlp/hidden/kernel"] for i in range(2)]
    assert np.abs(kernels[0] - kernels[1]).max() > 0.01
    limit = (6 / (192 + 768)) ** 0.5
    assert (
        0.99 * limit < np.abs(flat["encoder/block_0/mlp/hidden/kernel"]).max() <= limit
    )


@pytest.mark.parametrize("overrides", [{}, {"window_size": 3, "num_registers": 2}])
def test_features_and_attention_leave_the_logits_bit_for_bit(overrides):
    model, params = _tiny(**overrides)
    plain = _run(model, params)
    logits, taps = _run(model, params, features=True)
    np.testing.assert_array_equal(logits, plain)
    assert "attention" not in taps
    logits, taps = _run(model, params, attention_weights=True)
    np.testing.assert_array_equal(logits, plain)
    tokens = 8 * 12 + 1 + overrides.get("num_registers", 0)
    assert len(taps["layers"]) == len(taps["attention"]) == 2
    assert taps["embedded"].shape == taps["layers"][0].shape == (2, tokens, 32)
    for weights in taps["attention"]:
        assert weights.shape == (2, 2, tokens, tokens)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    expected = taps["pooled"] @ params["head"]["kernel"]
    expected += params["head"]["bias"][None]
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("options", [{"scan": True}, {"remat": "full"}])
def test_features_work_under_scan_and_remat(options):
    model, params = _tiny()
    other, _ = _tiny(**options)
    expected = _run(model, params, attention_weights=True)
    given = _run(other, params, attention_weights=True)
    assert jax.tree.structure(given) == jax.tree.structure(expected)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), given, expected
    )


def test_weights_under_windows_are_the_full_ones_inside_them():
    windowed, params = _tiny(window_size=4, depth=1)
    full, _ = _tiny(depth=1)
    (weights,) = _run(windowed, params, attention_weights=True)[1]["attention"]
    (whole,) = _run(full, params, attention_weights=True)[1]["attention"]
    assert 0.1 < float((weights > 0).mean()) < 0.3
    kept = np.where(weights > 0, whole, 0)
    np.testing.assert_allclose(weights, kept / kept.sum(-1, keepdims=True), atol=1e-6)


@pytest.mark.slow
def test_patch_dropout_leaves_out_patches_in_training_alone():
    model, params = _tiny(patch_dropout=0.5)
    plain, _ = _tiny()
    np.testing.assert_array_equal(_run(model, params), _run(plain, params))
    rngs = {"dropout": jax.random.key(0)}
    _, taps = _run(model, params, train=True, rngs=rngs, features=True)
    assert taps["embedded"].shape[1] == 97 and taps["layers"][0].shape[1] == 49


def test_grids_come_from_the_real_feature_map():
    """Case 10: hybrids round up, plain models refuse."""
    hybrid = vit_jax.create_model("R50+B/16")
    for side, rows in [(224, 14), (225, 15), (240, 15), (384, 24)]:
        assert hybrid.grid_shape((side, 224)) == (rows, 14)
    images = jax.ShapeDtypeStruct((1, 225, 224, 3), jnp.float32)
    params = jax.eval_shape(hybrid.init, jax.random.key(0), images)["params"]
    assert params["position"]["table"].shape == (1, 15 * 14 + 1, 768)
    with pytest.raises(ValueError, match="nearest: 224 or 240 rows"):
        vit_jax.create_model("B/16").grid_shape((225, 224))


def test_windows_keep_images_of_1024_pixels_linear():
    """4,096 patches: a block of full attention has 3 x 4,097 x 4,097 scores."""
    images = jax.ShapeDtypeStruct((1, 1024, 1024, 3), jnp.float32)

    def largest(**fields):
        model = vit_jax.create_model("Ti/16", image_size=1024, depth=1, **fields)
        params = jax.eval_shape(model.init, jax.random.key(0), images)
        return max(array_sizes(jax.make_jaxpr(model.apply)(params, images).jaxpr))

    assert largest() == 3 * 4097**2
    assert largest(window_size=16) == 3 * 4096 * 257


def array_sizes(jaxpr):
    """Of all that a program computes, inner programs included."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.size for variable in equation.outvars)
        for inner in jaxprs_in_params(equation.params):
            yield from array_sizes(inner)


def test_models_carry_what_images_they_were_made_for():
    assert vit_jax.create_model("cifar10_tiny").preprocessing.image_size == (32, 32)
    assert vit_jax.create_model("R50x1").preprocessing.mean == (0.5, 0.5, 0.5)


@pytest.mark.slow
def test_bfloat16_trains_through_scan_windows_and_stochastic_depth():
    options = {"window_size": 4, "global_every": 2, "pool": "map", "position": "rope"}
    options |= {"depth": 4, "width": 32, "num_heads": 2, "mlp_dim": 48}
    options |= {"stochastic_depth": 0.1, "scan": True, "remat": "dots"}
    model = vit_jax.create_model("cifar10_tiny", dtype=jnp.bfloat16, **options)
    params = redraw(jax.eval_shape(model.init, jax.random.key(0), IMAGES)["params"])

    @jax.jit
    @jax.grad
    def gradient(params):
        rngs = {"dropout": jax.random.key(0)}
        return model.apply({"params": params}, IMAGES, train=True, rngs=rngs).sum()

    for name, leaf in trees.flatten(gradient(params)).items():
        assert leaf.dtype == jnp.float32 and jnp.isfinite(leaf).all(), name
