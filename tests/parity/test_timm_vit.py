"""Models against timm's, all tensors drawn anew, on images that are no squares."""

from functools import partial

import jax
import numpy as np
import pytest
import torch
from timm.layers import HybridEmbed, RmsNorm, StdConv2d, SwiGLUPacked
from timm.layers.pos_embed_sincos import RotaryEmbeddingCat, apply_rot_embed_cat
from timm.models.resnetv2 import ResNetV2
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_hybrid import _resnetv2

import vit_jax
from tests.convert.ours import assert_same_arrays, logits_of
from tests.convert.peers import arrays_of, drawn, images_of, outputs, redraw
from vit_jax import trees
from vit_jax.convert.source import decode
from vit_jax.convert.target import encode
from vit_jax.layers.position import Layout, rotate
from vit_jax.models.variants import VARIANTS, list_models

PLAIN = [name for name in list_models() if "R" not in name]
# The others differ from these in size or patch alone; `make test-all` has them.
QUICK = {"Ti/16", "S/32", "B/8", "H/14", "cifar10_tiny"}
GELU = {"tanh": "gelu_tanh", "exact": "gelu", "quick": "quick_gelu"}


def peer_of(spec, image_shape, **options):
    """timm's model of the same sizes, two blocks deep."""
    sizes = {
        "img_size": image_shape,
        "patch_size": spec.patch_size,
        "embed_dim": spec.width,
        "depth": 2,
        "num_heads": spec.num_heads,
        "mlp_ratio": spec.mlp_dim / spec.width,
        "num_classes": 10,
        "norm_layer": partial(torch.nn.LayerNorm, eps=spec.norm_epsilon),
        "act_layer": GELU[spec.gelu],
    }
    return redraw(VisionTransformer(**sizes | options))


def logits_of_both(name, options, overrides, image_shape=None):
    """(ours, timm's) on two images, of 3 x 2 patches where not said otherwise."""
    model = vit_jax.create_model(name, depth=2, num_classes=10, **overrides)
    spec = VARIANTS[name]
    image_shape = image_shape or (3 * spec.patch_size, 2 * spec.patch_size)
    peer = peer_of(spec, image_shape, **options)
    images = images_of(image_shape)
    weights = decode(
        arrays_of(peer),
        image_size=image_shape,
        num_heads=spec.num_heads,
        gelu=overrides.get("gelu", spec.gelu),
        norm_epsilon=overrides.get("norm_epsilon", spec.norm_epsilon),
    )
    shapes = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
    shapes = {name: leaf.shape for name, leaf in trees.flatten(shapes).items()}
    assert {name: a.shape for name, a in weights.params.items()} == shapes
    params = trees.unflatten(weights.params)
    ours = jax.jit(model.apply)({"params": params}, images)
    return np.asarray(ours), outputs(peer, images)


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in PLAIN
    ],
)
def test_logits_equal_timms(name):
    ours, theirs = logits_of_both(name, {}, {})
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


RMS = {"norm_layer": partial(RmsNorm, eps=1e-6)}
FORMS = {
    "mean pooling": (
        {"class_token": False, "global_pool": "avg", "fc_norm": False},
        {"pool": "gap"},
    ),
    "norm after pooling": (
        {"class_token": True, "global_pool": "avg", "fc_norm": True},
        {"pool": "gap", "class_token": True, "final_norm": "pooled"},
    ),
    "no norm at the end": ({"final_norm": False}, {"final_norm": "none"}),
    "attention pooling": (
        {"class_token": False, "global_pool": "map"},
        {"pool": "map"},
    ),
    "CLIP": (
        {
            "pre_norm": True,
            "act_layer": "quick_gelu",
            "norm_layer": partial(torch.nn.LayerNorm, eps=1e-5),
        },
        {"first_norm": True, "stem_bias": False, "gelu": "quick", "norm_epsilon": 1e-5},
    ),
    "registers without positions": (
        {"reg_tokens": 4, "no_embed_class": True},
        {"num_registers": 4, "prefix_positions": False},
    ),
    "registers with positions, no class token": (
        {"reg_tokens": 2, "class_token": False, "global_pool": "avg", "fc_norm": False},
        {"num_registers": 2, "pool": "gap"},
    ),
    "LayerScale": ({"init_values": 0.1}, {"layer_scale": 0.1}),
    "SwiGLU": (
        {"mlp_layer": SwiGLUPacked, "act_layer": "silu", "mlp_ratio": 8.0},
        {"mlp": "swiglu"},
    ),
    "query and key norms": ({"qk_norm": True}, {"qk_norm": True}),
    "no biases": (
        {"qkv_bias": False, "proj_bias": False},
        {"qkv_bias": False, "out_bias": False, "mlp_bias": False},
    ),
    "RMSNorm": (RMS, {"norm": "rms"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_block_forms_and_poolings_equal_timms(form):
    ours, theirs = logits_of_both("Ti/16", *FORMS[form])
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_exact_gelu_is_seen():
    ours, theirs = logits_of_both("Ti/16", {}, {"gelu": "exact"})
    assert np.abs(ours - theirs).max() > 1e-5


@pytest.mark.parametrize(
    ("name", "units", "image_shape"),
    [
        ("R+Ti/16", (), (64, 96)),
        ("R26+S/32", (1, 1, 1, 1), (65, 96)),
        ("R50+B/16", (1, 2), (33, 64)),
    ],
)
def test_hybrids_equal_timms(name, units, image_shape):
    """timm's epsilons are 1e-8 inside the root, here 0, and 1e-5 for group norm."""
    embed = partial(HybridEmbed, backbone=_resnetv2(layers=units))
    ours, theirs = logits_of_both(
        name,
        {"embed_layer": embed},
        {
            "stem_units": units,
            "conv_epsilon": 0.0,
            "group_norm_epsilon": 1e-5,
        },
        image_shape,
    )
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_resnet_equals_timms():
    conv = partial(StdConv2d, eps=1e-8)
    peer = drawn(
        lambda: ResNetV2((1, 2, 1), num_classes=10, conv_layer=conv, stem_type="fixed")
    )
    images = images_of((65, 96))
    weights = decode(arrays_of(peer), image_size=(65, 96))
    theirs = outputs(peer, images)
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(logits_of(weights, images), theirs, atol=1e-4)
    assert_same_arrays(encode(weights, "timm").arrays, arrays_of(peer))


def test_rotation_equals_timms():
    x = np.random.default_rng(0).normal(size=(2, 1 + 6, 3, 16)).astype("f")
    embed = RotaryEmbeddingCat(16, in_pixels=False, feat_shape=(2, 3)).get_embed()
    patches = torch.from_numpy(x[:, 1:]).transpose(1, 2)
    expected = apply_rot_embed_cat(patches, embed).transpose(1, 2).numpy()
    out = np.asarray(rotate(x, Layout(2, 3, num_prefix=1)))
    np.testing.assert_allclose(out[:, 1:], expected, atol=1e-5)
    np.testing.assert_array_equal(out[:, :1], x[:, :1])
