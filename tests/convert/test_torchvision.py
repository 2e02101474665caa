"""Tests vit_jax/convert/torchvision.py against torchvision's models."""

import dataclasses

import numpy as np
import pytest
import torch
from torchvision.models.vision_transformer import VisionTransformer

from tests.convert.ours import assert_same_arrays, logits_of
from tests.convert.peers import arrays_of, drawn, images_of, outputs
from vit_jax.convert.layout import build
from vit_jax.convert.source import decode, read
from vit_jax.convert.target import encode, write

# patch, width, MLP width and heads of vit_b_16 to vit_h_14, and a pre-logits layer.
SIZES = {
    "vit_b_16": (16, 768, 3072, 12),
    "vit_b_32": (32, 768, 3072, 12),
    "vit_l_16": (16, 1024, 4096, 16),
    "vit_l_32": (32, 1024, 4096, 16),
    "vit_h_14": (14, 1280, 5120, 16),
    "tiny": (16, 128, 48, 2),
}


def peer_of(name, **options):
    """torchvision's model, two blocks deep, drawn anew; its images are squares."""
    patch, width, mlp_dim, heads = SIZES[name]
    sizes = {"image_size": 2 * patch, "patch_size": patch, "num_classes": 10}
    sizes |= {"hidden_dim": width, "mlp_dim": mlp_dim, "num_heads": heads}
    return drawn(lambda: VisionTransformer(num_layers=2, **(sizes | options)))


@pytest.mark.parametrize(
    "name",
    [n if n == "tiny" else pytest.param(n, marks=pytest.mark.slow) for n in SIZES],
)
def test_logits_equal_torchvisions_and_the_way_back_is_exact(name):
    peer = peer_of(name)
    weights = decode(arrays_of(peer))
    patch = SIZES[name][0]
    images = images_of((2 * patch, 2 * patch))
    theirs = outputs(peer, images)
    assert np.ptp(theirs) > 0.3 and weights.layout == "torchvision"
    np.testing.assert_allclose(logits_of(weights, images), theirs, atol=1e-4)
    assert_same_arrays(encode(weights, "torchvision").arrays, arrays_of(peer))


def test_pre_logits_and_older_names_are_read():
    peer = peer_of("tiny", representation_size=24)
    arrays = arrays_of(peer)
    weights = decode(arrays)
    images = images_of((32, 32))
    theirs = outputs(peer, images)
    np.testing.assert_allclose(logits_of(weights, images), theirs, atol=1e-4)
    old = {
        n.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): a
        for n, a in arrays.items()
    }
    assert old.keys() != arrays.keys()
    assert_same_arrays(decode(old).params, weights.params)


def test_torch_reads_our_file(tmp_path):
    peer = peer_of("tiny")
    weights = decode(arrays_of(peer), norm_epsilon=1e-5)
    (note,) = write(weights, tmp_path / "x.pth", "torchvision")
    assert "norm_epsilon=1e-05" in note
    state = torch.load(tmp_path / "x.pth", weights_only=True)
    other = peer_of("tiny")
    other.load_state_dict(state)
    assert_same_arrays(arrays_of(other), arrays_of(peer))
    back = read(tmp_path / "x.pth", norm_epsilon=1e-5)
    assert build(back.spec) == build(weights.spec)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gelu": "tanh"}, "gelu='tanh' must be 'exact'"),
        ({"pool": "gap", "norm": "rms"}, "(?s)norm='rms' must.*pool='gap' must"),
        ({"num_heads": 4}, "num_heads=4 must be 2"),
    ],
)
def test_what_torchvision_lacks_is_refused(fields, message):
    weights = decode(arrays_of(peer_of("tiny")))
    spec = dataclasses.replace(weights.spec, **fields)
    with pytest.raises(ValueError, match=message):
        encode(dataclasses.replace(weights, spec=spec), "torchvision")
