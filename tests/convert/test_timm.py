"""Tests vit_jax/convert/timm.py against timm: logits, gradient, step, way back."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import timm
import torch

from tests.convert.coverage import FAMILIES, HYBRIDS, compare, shape_of, table
from tests.convert.ours import assert_same_arrays
from tests.convert.peers import arrays_of, drawn, images_of, outputs
from vit_jax import trees
from vit_jax.convert import timm as layout
from vit_jax.convert.layout import build
from vit_jax.convert.rules import to_theirs
from vit_jax.convert.source import decode, read
from vit_jax.convert.target import encode, write

# One of each kind that is small; `make test-all` has all names.
QUICK = {
    "vit_tiny_patch16_224",
    "vit_xsmall_patch16_clip_224",
    "vit_wee_patch16_reg1_gap_256",
    "test_vit2",
    "test_vit3",
    "test_vit4",
    "flexivit_small",
    "vit_small_patch14_reg4_dinov2",
    "deit_tiny_distilled_patch16_224",
    "deit3_small_patch16_224",
    "vit_tiny_r_s16_p8_224",
    "vit_small_r26_s32_224",
}
REFUSED = {
    "vit_base_patch16_rpn_224": "norms after the branches",
    "vit_small_patch16_18x2_224": "parallel branches",
    "vit_base_patch16_18x2_224": "parallel branches",
    "vit_base_patch16_xp_224": "attention and MLP side by side",
    "vit_large_patch14_xp_224": "attention and MLP side by side",
    "vit_huge_patch14_xp_224": "attention and MLP side by side",
    "vit_pwee_patch16_reg1_gap_256": "attention and MLP side by side",
    "vit_dpwee_patch16_reg1_gap_256": "attention and MLP side by side",
    "vit_dwee_patch16_reg1_gap_256": "differential attention",
    "vit_dlittle_patch16_reg1_gap_256": "differential attention",
}
NAMES = [name for names in FAMILIES.values() for name in names]


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in NAMES
        if name not in REFUSED
    ],
)
def test_logits_equal_timms_and_the_way_back_is_exact(name):
    """Case 27: fused and split heads in the right order."""
    outcome = compare(name)
    assert not outcome.refused
    assert outcome.spread > 0.5 and outcome.difference < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "vit_small_patch16_224",
        "vit_small_patch14_reg4_dinov2",
        "vit_base_patch32_clip_quickgelu_224",
        "vit_base_patch32_siglip_256",
        "beit3_base_patch16_224",
        "aimv2_large_patch14_224",
        "deit_small_distilled_patch16_224",
        "vit_small_r26_s32_224",
    ],
)
def test_whole_models_equal_timms(name):
    depth = {"aimv2_large_patch14_224": 24}.get(name, 12)
    outcome = compare(name, depth=depth)
    assert outcome.spread > 0.5 and outcome.difference < 1e-4


@pytest.mark.parametrize("name", REFUSED)
def test_blocks_without_a_model_here_are_refused_by_name(name):
    with torch.device("meta"):
        peer = timm.create_model(name, depth=1)
    arrays = {n: np.broadcast_to(0, t.shape) for n, t in peer.state_dict().items()}
    with pytest.raises(ValueError, match=f"blocks with {REFUSED[name]}.* have no mo"):
        decode(arrays, variant=name)


def test_most_names_are_covered():
    assert len(FAMILIES["vision_transformer"]) == 163 and len(FAMILIES["deit"]) == 16
    assert REFUSED.keys() <= set(NAMES) and len(REFUSED) <= 13


def tiny(**options):
    """A small model of timm's, drawn anew."""
    sizes = {"img_size": (32, 48), "embed_dim": 32, "depth": 2, "num_heads": 4}
    options = sizes | {"num_classes": 5} | options
    return drawn(lambda: timm.models.vision_transformer.VisionTransformer(**options))


ADAMW = {"lr": 1e-3, "weight_decay": 0.1}
# Adam's first step is the gradient over its own size: without this, rounding of what is
# next to nothing (key biases have no gradient) would become a whole step.
EPSILON = 1e-4


@pytest.mark.slow
def test_a_gradient_and_an_adamw_step_equal_torchs():
    """The table maps gradients as it maps weights."""
    peer = tiny()
    fields = {"image_size": (32, 48), "num_heads": 4}
    weights = decode(arrays_of(peer), **fields)
    images, labels = images_of((32, 48)), np.array([1, 3])
    params = trees.unflatten(weights.params)
    model = build(weights.spec)

    @jax.jit
    def loss_of(params):
        logits = model.apply({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    gradient = jax.grad(loss_of)(params)
    optimizer = torch.optim.AdamW(peer.parameters(), **ADAMW, eps=EPSILON)
    out = peer(torch.from_numpy(images).permute(0, 3, 1, 2))
    torch.nn.functional.cross_entropy(out, torch.from_numpy(labels)).backward()
    rules = layout.table(weights.spec)
    theirs = {n: p.grad.numpy().copy() for n, p in peer.named_parameters()}
    ours = to_theirs(rules, flat(gradient), layout="timm")
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, atol=1e-5, err_msg=name)

    optimizer.step()
    rule = optax.adamw(ADAMW["lr"], weight_decay=ADAMW["weight_decay"], eps=EPSILON)
    updates, _ = rule.update(gradient, rule.init(params), params)
    stepped = optax.apply_updates(params, updates)
    ours = to_theirs(rules, flat(stepped), layout="timm")
    for name, array in arrays_of(peer).items():
        np.testing.assert_allclose(ours[name], array, atol=1e-5, err_msg=name)


def flat(tree):
    return {name: np.asarray(leaf) for name, leaf in trees.flatten(tree).items()}


FOLDERS = {
    "clip": {"pre_norm": True, "act_layer": "quick_gelu"},
    "mean": {"class_token": False, "global_pool": "avg", "reg_tokens": 2},
    "map": {"class_token": False, "global_pool": "map", "act_layer": "gelu_tanh"},
    "scaled": {"init_values": 0.1, "no_embed_class": True, "reg_tokens": 4},
    "beit3": {"scale_attn_norm": True, "scale_mlp_norm": True, "qk_norm": True},
    "no position": {"pos_embed": "none", "final_norm": False, "qkv_bias": False},
}


@pytest.mark.parametrize("form", FOLDERS)
def test_timm_makes_the_model_of_our_folder(form, tmp_path):
    peer = tiny(**FOLDERS[form])
    activation = FOLDERS[form].get("act_layer", "gelu")
    gelu = {"gelu": "exact", "quick_gelu": "quick", "gelu_tanh": "tanh"}[activation]
    weights = decode(
        arrays_of(peer),
        image_size=(32, 48),
        num_heads=4,
        gelu=gelu,
        position="none" if form == "no position" else "learned_1d",
    )
    assert not write(weights, tmp_path / "model", "timm")
    made = timm.create_model(f"local-dir:{tmp_path / 'model'}", pretrained=True)
    images = images_of((32, 48))
    np.testing.assert_array_equal(outputs(made.eval(), images), outputs(peer, images))
    back = read(tmp_path / "model")
    assert build(back.spec) == build(weights.spec)
    assert_same_arrays(back.params, weights.params)
    assert back.preprocessing == weights.preprocessing


@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", *HYBRIDS[:1]])
def test_timm_makes_its_other_classes_from_our_folder(name, tmp_path):
    shape = shape_of(name)
    peer = drawn(lambda: timm.create_model(name, img_size=shape, num_classes=5))
    weights = decode(arrays_of(peer), variant=name, image_size=shape)
    write(weights, tmp_path / "model", "timm")
    made = timm.create_model(f"local-dir:{tmp_path / 'model'}", pretrained=True)
    assert_same_arrays(arrays_of(made), arrays_of(peer))
    assert build(read(tmp_path / "model").spec) == build(weights.spec)


def test_older_names_are_read():
    """DeiT III's layer scales, and the tanh layer that timm had before 2022."""
    arrays = arrays_of(tiny(init_values=0.1))
    old = {
        name.replace(".ls1.gamma", ".gamma_1").replace(".ls2.gamma", ".gamma_2"): a
        for name, a in arrays.items()
    }
    fields = {"image_size": (32, 48), "num_heads": 4}
    new = decode(arrays, **fields)
    assert_same_arrays(decode(old, **fields).params, new.params)
    arrays |= {"pre_logits.fc.weight": np.ones((32, 32), "f")}
    arrays |= {"pre_logits.fc.bias": np.ones(32, "f")}
    weights = decode(arrays, **fields)
    assert weights.spec.representation_size == 32
    with pytest.raises(ValueError, match="pre_logits/kernel: the layout has no place"):
        encode(weights, "timm")


def test_unknown_widths_and_activations_are_refused():
    arrays = arrays_of(tiny())
    with pytest.raises(ValueError, match="how many heads a model of width 32 has"):
        decode(arrays, image_size=(32, 48))
    message = "act_layer='relu' must be one of gelu"
    with pytest.raises(ValueError, match=message):
        layout.read(arrays, "", {"act_layer": "relu"})
    with pytest.raises(ValueError, match="has 6 rows for patches, which is no square"):
        decode(arrays, num_heads=4)
    with pytest.raises(ValueError, match="models have no field hats"):
        decode(arrays, hats=4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pool": "cls_gap"}, "pool='cls_gap' must be"),
        ({"position": "rope"}, "position='rope' must be"),
        ({"window_size": 7}, "window_size=7 must be 0"),
        ({"mlp_bias": False}, "mlp_bias=False must be out_bias"),
        ({"stem_norm": True}, "stem_norm must go with mlp='swiglu'"),
        ({"pool": "map", "mlp": "swiglu"}, "must go with mlp='plain'"),
    ],
)
def test_what_timm_lacks_is_refused(fields, message):
    weights = decode(arrays_of(tiny()), image_size=(32, 48), num_heads=4)
    spec = weights.spec.__class__(**(weights.spec.__dict__ | fields))
    with pytest.raises(ValueError, match=message):
        encode(weights.__class__(**(weights.__dict__ | {"spec": spec})), "timm")


def test_an_unknown_hybrid_has_no_name_there():
    from vit_jax.convert.timm_names import architecture_of
    from vit_jax.models.variants import resolve

    spec = resolve("R26+S/32", {"stem_units": (1, 1)})
    with pytest.raises(ValueError, match=r"no hybrid with stem_units=\(1, 1\)"):
        architecture_of(spec)
    with pytest.raises(ValueError, match="no hybrid with stem_width=32"):
        architecture_of(resolve("R26+S/32", {"stem_width": 32}))


def test_exact_gelu_and_epsilon_are_seen():
    """Cases 28 and 29: a wrong form differs more than the comparison allows."""
    peer, images = tiny(), images_of((32, 48))
    arrays, fields = arrays_of(peer), {"image_size": (32, 48), "num_heads": 4}
    theirs = outputs(peer, images)
    for wrong in ({"gelu": "tanh"}, {"norm_epsilon": 1e-3}):
        weights = decode(arrays, **fields, **wrong)
        params = trees.unflatten(weights.params)
        ours = build(weights.spec).apply({"params": params}, jnp.asarray(images))
        assert np.abs(np.asarray(ours) - theirs).max() > 1e-4


def test_the_table_of_outcomes_counts_and_gives_reasons():
    from tests.convert.coverage import Outcome

    outcomes = {name: Outcome(name, 1e-6, 1.0) for name in NAMES}
    outcomes["test_vit"] = Outcome("test_vit", refused="because")
    text = table(outcomes)
    assert "| vision_transformer | 163 | 162 | 1.0e-06 |" in text
    assert "- `test_vit`: because" in text
