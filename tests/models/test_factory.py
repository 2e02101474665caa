"""Tests vit_jax/models/factory.py: what create_model takes, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax

IMAGES = jnp.zeros((2, 8, 8, 3))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"pool": "mean"}, "pool='mean' must be one of 'cls', 'gap', 'cls_gap', 'map'"),
        ({"pool": "distilled"}, "num_registers=0 must be 1 or more"),
        (
            {"pool": "distilled", "num_registers": 1, "representation_size": 8},
            "representation_size=8 must be 0",
        ),
        ({"stem": "conv", "stem_norm": True}, "stem_norm goes with stem='patch'"),
        ({"pool": "cls_gap", "class_token": False}, "pool='cls_gap' needs a class"),
        ({"gelu": "erf"}, "gelu='erf' must be one of"),
        (
            {"position": "learned"},
            "position='learned' must be one of 'none', 'learned_1d'",
        ),
        ({"token_init": "x"}, "token_init='x' must be one of 'paper', 'truncated'"),
        ({"width": 100}, "width=100 must be a multiple of num_heads=12"),
        ({"depth": 0}, "depth=0 must be at least 1"),
        ({"num_heads": 0}, "num_heads=0 must be at least 1"),
        ({"num_classes": -1}, "num_classes=-1 must be at least 0"),
        ({"dropout": 1.0}, "dropout=1.0 must be from 0 to less than 1"),
        ({"stochastic_depth": -0.1}, "stochastic_depth=-0.1 must be from 0"),
        ({"width": "64"}, "width='64' must be of type int"),
        ({"dropout": True}, "dropout=True must be of type float"),
        ({"class_token": False}, "pool='cls' needs a class token; class_token=False"),
        ({"stem": "conv", "patch_size": 14}, "patch_size=14 must be a power of two"),
        ({"stem_width": 32}, "stem_width=32 goes with stem='resnet', not 'patch'"),
        ({"stem_width": 48}, "stem_width=48 must be a multiple of 32, for group"),
        ({"stem_units": (1, 2)}, r"stem_units=\(1, 2\) must be \(\) for stem='patch'"),
        ({"position": "rope", "patch_dropout": 0.5}, "patch_dropout breaks the grid"),
        ({"global_every": 3}, "global_every=3 must be 0 without windows"),
        (
            {"global_every": 13, "window_size": 2},
            "global_every=13 must be at most depth=12",
        ),
        (
            {"position": "sincos_2d", "width": 66, "num_heads": 3},
            "width=66 must be a multiple of 4 for position='sincos_2d'",
        ),
        (
            {"position": "learned_2d", "width": 63, "num_heads": 3},
            "width=63 must be a multiple of 2 for position='learned_2d'",
        ),
        (
            {"position": "rope", "num_heads": 384},
            "width=768 / num_heads=384 must be a multiple of 4 for position='rope'",
        ),
        ({"remat": "some"}, "remat='some' must be one of 'none', 'dots', 'full'"),
        (
            {"window_size": 7, "global_every": 5, "scan": True},
            "scan=True needs depth=12 to be a multiple of global_every=5",
        ),
    ],
)
def test_bad_values_are_refused(override, message):
    with pytest.raises(ValueError, match=message):
        vit_jax.create_model("B/16", **override)


def test_all_faults_come_at_once():
    with pytest.raises(ValueError, match=r"(?s)depth=0.*dropout=2.*pool='x'"):
        vit_jax.create_model("B/16", pool="x", depth=0, dropout=2)


def test_a_resnet_has_no_layers_to_scan_or_to_compute_anew():
    with pytest.raises(ValueError, match="remat='full' are of encoders' layers"):
        vit_jax.create_model("R50x1", remat="full")


def test_a_list_counts_as_a_tuple():
    one, two = (
        vit_jax.create_model("R50x1", stem_units=units) for units in ([1, 2], (1, 2))
    )
    assert one == two and hash(one) == hash(two)


def test_equal_calls_give_equal_models():
    one, two = (vit_jax.create_model("B/16", num_classes=10) for _ in range(2))
    assert one == two and hash(one) == hash(two)
    assert one != vit_jax.create_model("B/16", num_classes=11)


def test_no_classes_gives_features():
    model = vit_jax.create_model("cifar10_tiny", depth=1, num_classes=0)
    features, variables = jax.jit(model.init_with_output)(jax.random.key(0), IMAGES)
    assert features.shape == (2, 64) and features.dtype == jnp.float32
    assert "head" not in variables["params"]


def test_representation_size_puts_a_tanh_layer_before_the_head():
    model = vit_jax.create_model(
        "cifar10_tiny", depth=1, num_classes=0, representation_size=20
    )
    features, variables = jax.jit(model.init_with_output)(jax.random.key(0), IMAGES)
    assert features.shape == (2, 20) and jnp.abs(features).max() < 1
    assert variables["params"]["pre_logits"]["kernel"].shape == (64, 20)


@pytest.mark.parametrize("name", ["create_model", "list_models"])
def test_package_hands_on(name):
    assert callable(getattr(vit_jax, name))


def test_package_refuses_unknown_names():
    with pytest.raises(AttributeError, match="has no attribute 'creat_model'"):
        getattr(vit_jax, "creat_" + "model")


def test_norms_keep_their_digits_where_the_mean_is_large():
    norm = vit_jax.create_model("Ti/16").encoder.norm
    x = np.random.default_rng(0).normal(300, 1, (2, 3, 192)).astype(np.float32)
    exact = x.astype(np.float64)
    exact -= exact.mean(-1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-6)
    params = {"scale": jnp.ones(192), "bias": jnp.zeros(192)}
    np.testing.assert_allclose(norm.apply({"params": params}, x), exact, atol=1e-4)
