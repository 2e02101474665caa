"""Models against the original code's forward pass, restated in NumPy (original.py).

Every tensor is drawn anew by the official names, read as an .npz is, and compared on
images that are squares and that are none.
"""

from functools import partial

import flax.linen as nn
import jax
import numpy as np
import pytest

from tests.convert.ours import logits_of
from tests.convert.peers import images_of
from tests.parity import original
from vit_jax import trees
from vit_jax.convert.layout import shapes_of
from vit_jax.convert.official import table
from vit_jax.convert.rules import foreign_shapes
from vit_jax.convert.source import decode
from vit_jax.layers.attention import Attention
from vit_jax.layers.conv import GroupNorm, StdConv
from vit_jax.layers.mlp import MlpBlock
from vit_jax.layers.patches import PatchEmbed
from vit_jax.layers.position import Layout
from vit_jax.models.resnet import Unit
from vit_jax.models.variants import resolve

TINY = {"width": 32, "depth": 2, "num_heads": 4, "mlp_dim": 48, "num_classes": 10}
FORMS = {
    "token": ("B/16", {}, (32, 48)),
    "token, a square": ("B/16", {}, (32, 32)),
    "mean": ("S/32", {"pool": "gap"}, (96, 32)),
    "pre-logits": ("B/16", {"representation_size": 24}, (48, 32)),
    "R+Ti/16": ("R+Ti/16", {}, (64, 96)),
    "R26+S/32, cut": ("R26+S/32", {"stem_units": (1, 2)}, (32, 45)),
    "R50+B/16, cut": ("R50+B/16", {"stem_units": (1, 1, 1)}, (33, 48)),
}


def drawn(form):
    """(arrays by the official names, images) of a form; every array is noise."""
    name, fields, size = FORMS[form]
    spec = resolve(name, TINY | {"image_size": size[0]} | fields)
    prefix, rules = table(spec)
    shapes = foreign_shapes(rules, shapes_of(spec, (*size, 3)))
    rng = np.random.default_rng(0)
    arrays = {}
    for name, shape in shapes.items():
        noise = rng.normal(size=shape)
        if name.endswith("kernel"):
            # Inputs are all axes but the last; of attention's three first kernels one.
            heads = "/query/" in name or "/key/" in name or "/value/" in name
            noise *= np.prod(shape[:1] if heads else shape[:-1]) ** -0.5
        arrays[prefix + name] = (noise + name.endswith("scale")).astype("f")
    return arrays, images_of(size)


def expected(arrays, images):
    """The original's logits, computed in float64."""
    arrays = {name: array.astype(np.float64) for name, array in arrays.items()}
    return original.forward(arrays, images.astype(np.float64))


@pytest.mark.parametrize("form", FORMS)
def test_logits_equal_the_originals(form):
    arrays, images = drawn(form)
    weights = decode(arrays, image_size=images.shape[1:3])
    theirs = expected(arrays, images)
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(logits_of(weights, images), theirs, atol=1e-4)


def attended(variables, x):
    """Our attention of every token with all."""
    return Attention(4).apply(variables, x, Layout(2, 3, 0), dropout_key=None)[0]


BLOCK, UNIT = "encoder/block_1", "stem/stages/stage_1_unit_0"
MHA, MLP = "MultiHeadDotProductAttention_1", "MlpBlock_3"
LAST = "Transformer/encoderblock_1"
# Our module, where its weights lie, the original's function, where its arrays lie, and
# the shape of the input.
MODULES = {
    "layer norm": (
        nn.LayerNorm(epsilon=1e-6),
        ("encoder/norm", original.layer_norm, "Transformer/encoder_norm"),
        (2, 6, 32),
    ),
    "attention": (
        attended,
        (f"{BLOCK}/attention", original.attention, f"{LAST}/{MHA}"),
        (2, 6, 32),
    ),
    "MLP": (
        partial(MlpBlock(48).apply, dropout_key=None),
        (f"{BLOCK}/mlp", original.mlp, f"{LAST}/{MLP}"),
        (2, 6, 32),
    ),
    "group norm": (
        GroupNorm(),
        ("stem/root_norm", original.group_norm, "gn_root"),
        (2, 5, 6, 64),
    ),
    "standardised convolution": (
        StdConv(64, 7, 2),
        (
            "stem/root",
            lambda p, x: original.std_conv(p["kernel"], x, 2),
            "conv_root",
        ),
        (2, 33, 48, 3),
    ),
    "bottleneck": (
        Unit(128, 2, 1e-5, 1e-6, groups=32),
        (UNIT, partial(original.unit, stride=2), "block2/unit1"),
        (2, 5, 6, 256),
    ),
    "patches": (
        PatchEmbed(1, 32),
        ("stem", original.patches, "embedding"),
        (2, 5, 6, 512),
    ),
}


@pytest.fixture(scope="module")
def hybrid():
    """(our parameters, the original's arrays) of a hybrid that has all the modules."""
    arrays, images = drawn("R26+S/32, cut")
    return decode(arrays, image_size=images.shape[1:3]).params, arrays


@pytest.mark.parametrize("name", MODULES)
def test_a_module_equals_the_originals(name, hybrid):
    module, (ours, function, theirs), shape = MODULES[name]
    params = trees.unflatten(original.below(hybrid[0], ours))
    x = np.random.default_rng(1).normal(size=shape).astype("f")
    if name == "standardised convolution":
        # Its kernel has deviation 1: outputs as large as the others' need such inputs.
        x *= np.float32(np.prod(hybrid[0][f"{ours}/kernel"].shape[:-1]) ** -0.5)
    apply = getattr(module, "apply", module)
    arrays = original.below(hybrid[1], theirs)
    arrays = {name: array.astype(np.float64) for name, array in arrays.items()}
    expected = function(arrays, x.astype(np.float64))
    assert np.ptp(expected) > 1
    found = jax.jit(apply)({"params": params}, x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
