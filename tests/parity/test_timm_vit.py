"""Every plain variant against timm's Vision Transformer, all tensors drawn anew."""

from functools import partial

import jax
import numpy as np
import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

import vit_jax
from tests.parity.timm_names import from_timm
from vit_jax.models.variants import VARIANTS

GELU = {"tanh": "gelu_tanh", "exact": "gelu"}


def redraw(module, seed=0):
    """The torch module with every parameter drawn anew, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(generator=generator)
            if "norm" in name and name.endswith("weight"):
                parameter.mul_(0.1).add_(1)
            else:
                parameter.mul_(min(0.2, parameter[0].numel() ** -0.5))
    return module.eval()


def peer_of(spec, image_shape, **options):
    """timm's model of the same sizes, two blocks deep."""
    with torch.device("meta"):
        peer = VisionTransformer(
            img_size=image_shape,
            patch_size=spec.patch_size,
            embed_dim=spec.width,
            depth=2,
            num_heads=spec.num_heads,
            mlp_ratio=spec.mlp_dim / spec.width,
            norm_layer=partial(torch.nn.LayerNorm, eps=spec.norm_epsilon),
            act_layer=GELU[spec.gelu],
            num_classes=10,
            **options,
        )
    return redraw(peer.to_empty(device="cpu"))


def logits_of_both(name, options, overrides):
    """(ours, timm's) on two images of 3 x 2 patches."""
    spec = VARIANTS[name]
    image_shape = (3 * spec.patch_size, 2 * spec.patch_size)
    peer = peer_of(spec, image_shape, **options)
    images = np.random.default_rng(0).normal(size=(2, *image_shape, 3)).astype("f")
    model = vit_jax.create_model(name, depth=2, num_classes=10, **overrides)
    params = from_timm(peer.state_dict(), spec.num_heads)
    with torch.no_grad():
        theirs = peer(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
    ours = jax.jit(model.apply)({"params": params}, images)
    return np.asarray(ours), theirs


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_equal_timms(name):
    ours, theirs = logits_of_both(name, {}, {})
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_mean_pooling_without_class_token_equals_timms():
    options = {"class_token": False, "global_pool": "avg", "fc_norm": False}
    ours, theirs = logits_of_both("Ti/16", options, {"pool": "gap"})
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_exact_gelu_equals_timms_default():
    ours, theirs = logits_of_both("Ti/16", {}, {"gelu": "exact"})
    assert np.abs(ours - theirs).max() > 1e-5
