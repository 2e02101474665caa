"""Tests vit_jax/convert/official.py: .npz of the original code and of big_vision."""

import numpy as np
import pytest
import timm

from tests.convert.ours import assert_same_arrays, logits_of, put
from tests.convert.peers import images_of, outputs
from vit_jax.convert.files import BFLOAT16
from vit_jax.convert.layout import Weights, build, describe, shapes_of
from vit_jax.convert.source import decode, read
from vit_jax.convert.target import encode, write
from vit_jax.models.variants import resolve

TINY = {"width": 32, "depth": 2, "num_heads": 4, "mlp_dim": 48, "num_classes": 10}
OLD = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel"
NEW = OLD.replace("Attention_1", "Attention_0")
FORMS = {
    "token": ("B/16", {}, (32, 32)),
    "mean": ("B/16", {"pool": "gap"}, (32, 32)),
    "attention pooling": ("B/16", {"pool": "map"}, (32, 32)),
    "no class slot": ("B/16", {"prefix_positions": False}, (32, 32)),
    "pre-logits": ("B/16", {"representation_size": 32}, (32, 32)),
    "no head": ("B/16", {"num_classes": 0}, (32, 32)),
    "sines": ("B/16", {"pool": "gap", "position": "sincos_2d"}, (32, 32)),
    "hybrid": ("R26+S/32", {"stem_units": (1, 2), "patch_size": 2}, (32, 32)),
    "root alone": ("R+Ti/16", {"patch_size": 4, "stem_width": 32}, (32, 32)),
    "grey images": ("B/16", {}, (32, 32)),
}


def weights_of(form, **overrides):
    """Random weights of a form."""
    name, fields, size = FORMS[form]
    channels = 1 if form == "grey images" else 3
    sizes = TINY | {"image_size": size[0]} | fields | overrides
    spec = resolve(name, {k: v for k, v in sizes.items()})
    shapes = shapes_of(spec, (*size, channels))
    rng = np.random.default_rng(0)
    drawn = {
        n: (0.05 * rng.normal(size=s) + n.endswith("scale")).astype("f")
        for n, s in shapes.items()
    }
    return Weights("orbax", spec, drawn, describe(size, channels=channels))


@pytest.mark.parametrize("form", FORMS)
def test_there_and_back_keeps_every_bit_and_the_model(form):
    weights = weights_of(form)
    arrays = encode(weights, "npz").arrays
    back = decode(arrays, image_size=(32, 32) if form == "sines" else None)
    assert_same_arrays(back.params, weights.params)
    assert build(back.spec) == build(weights.spec)
    assert back.image_shape == weights.image_shape and back.layout == "npz"
    again = encode(back, "npz").arrays
    assert_same_arrays(again, arrays)


def test_files_have_the_public_numbering():
    arrays = encode(weights_of("token"), "npz").arrays
    assert arrays[OLD].shape == (32, 4, 8)
    assert arrays["Transformer/encoderblock_1/MlpBlock_3/Dense_1/bias"].shape == (32,)
    assert arrays["Transformer/encoderblock_1/LayerNorm_2/scale"].shape == (32,)
    assert arrays["Transformer/posembed_input/pos_embedding"].shape == (1, 5, 32)
    assert {"cls", "embedding/kernel", "head/bias"} <= arrays.keys()
    assert not any("pre_logits" in name for name in arrays)


def renumbered(arrays):
    pairs = {"Attention_1": "Attention_0", "LayerNorm_2": "LayerNorm_1"}
    pairs |= {"MlpBlock_3": "MlpBlock_0"}
    found = {}
    for name, array in arrays.items():
        for old, new in pairs.items():
            name = name.replace(old, new)
        found[name] = array
    return found


def scanned(arrays):
    """Blocks stacked along a leading axis, as big_vision's scan has them."""
    block = "Transformer/encoderblock_0/"
    parts = [n.removeprefix(block) for n in arrays if n.startswith(block)]
    found = {n: a for n, a in arrays.items() if "encoderblock" not in n}
    for part in parts:
        layers = [arrays[f"Transformer/encoderblock_{i}/{part}"] for i in (0, 1)]
        found[f"Transformer/encoderblock/{part}"] = np.stack(layers)
    return found


def prefixed(prefix):
    return lambda arrays: {
        **{prefix + name: array for name, array in arrays.items()},
        "opt/state/step": np.zeros(()),
    }


WRITINGS = {
    "linen numbering": renumbered,
    "scanned blocks": lambda arrays: scanned(renumbered(arrays)),
    "params/": prefixed("params/"),
    "opt/target/": prefixed("opt/target/"),
    "params/img/": prefixed("params/img/"),
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_other_ways_to_write_the_same_weights_are_read(writing):
    weights = weights_of("token")
    arrays = WRITINGS[writing](encode(weights, "npz").arrays)
    back = decode(arrays)
    assert_same_arrays(back.params, weights.params)
    if writing.endswith("/"):
        assert any("left out" in note for note in back.notes)


def test_blocks_are_ordered_by_number():
    """Case 19: block 10 comes after block 2."""
    weights = weights_of("token", depth=12)
    arrays = encode(weights, "npz").arrays
    for layer in range(12):
        name = f"Transformer/encoderblock_{layer}/LayerNorm_0/bias"
        arrays[name] = np.full(32, layer, "f")
    params = decode(dict(sorted(arrays.items()))).params
    for layer in range(12):
        assert (params[f"encoder/block_{layer}/attention_norm/bias"] == layer).all()


def test_group_norms_of_old_files_are_squeezed_and_nothing_else():
    """Case 17: (1, 1, 1, C) of flax before 0.3.6."""
    weights = weights_of("hybrid")
    arrays = encode(weights, "npz").arrays
    old = {
        name: array.reshape(1, 1, 1, -1) if "/gn" in f"/{name}" else array
        for name, array in arrays.items()
    }
    assert old["gn_root/scale"].shape == (1, 1, 1, 64)
    assert_same_arrays(decode(old).params, weights.params)


def test_bfloat16_survives_an_npz(tmp_path):
    weights = weights_of("token")
    params = {n: a.astype(BFLOAT16) for n, a in weights.params.items()}
    arrays = encode(Weights("orbax", weights.spec, params, {}), "npz").arrays
    put(tmp_path / "x.npz", "npz", arrays)
    with np.load(tmp_path / "x.npz") as file:
        assert file["cls"].dtype == np.dtype("V2")
    assert_same_arrays(read(tmp_path / "x.npz").params, params)


@pytest.mark.parametrize(
    ("form", "peer"),
    [
        ("token", {}),
        ("mean", {"class_token": False, "global_pool": "avg", "fc_norm": False}),
        ("attention pooling", {"class_token": False, "global_pool": "map"}),
        ("no class slot", {"no_embed_class": True}),
    ],
)
def test_timm_reads_our_files(form, peer, tmp_path):
    """timm's own reader, which loads the published ones."""
    weights = weights_of(form)
    write(weights, tmp_path / "x.npz", "npz")
    model = timm.models.vision_transformer.VisionTransformer(
        img_size=32,
        embed_dim=32,
        depth=2,
        num_heads=4,
        mlp_ratio=1.5,
        num_classes=10,
        act_layer="gelu_tanh",
        **peer,
    )
    model.load_pretrained(str(tmp_path / "x.npz"))
    images = images_of((32, 32))
    theirs = outputs(model.eval(), images)
    assert np.ptp(theirs) > 0.1
    np.testing.assert_allclose(logits_of(weights, images), theirs, atol=1e-4)


def test_zero_heads_are_said(tmp_path):
    """Case 15: published heads for fine-tuning are zeros."""
    arrays = encode(weights_of("token"), "npz").arrays
    arrays |= {n: np.zeros_like(arrays[n]) for n in ("head/kernel", "head/bias")}
    weights = decode(arrays)
    assert any("the head is all zeros" in note for note in weights.notes)
    logits = logits_of(weights, images_of((32, 32)))
    assert (logits.argmax(axis=1) == 0).all() and not logits.any()


def test_pre_logits_are_loaded_left_out_or_refused():
    """Case 14: files of the paper have a layer more."""
    arrays = encode(weights_of("pre-logits"), "npz").arrays
    assert decode(arrays).spec.representation_size == 32
    without = decode(arrays, representation_size=0)
    assert not any(name.startswith("pre_logits") for name in without.params)
    assert "pre_logits of 32 left out" in without.notes
    with pytest.raises(ValueError, match=r"pre_logits/bias: \[32\], must be \[33\]"):
        decode(arrays, representation_size=33)


def test_no_classes_leaves_the_head_out():
    """Case 22: features alone."""
    weights = decode(encode(weights_of("token"), "npz").arrays, num_classes=0)
    assert not any(name.startswith("head") for name in weights.params)
    assert logits_of(weights, images_of((32, 32))).shape == (2, 32)


def test_a_missing_and_an_extra_array_are_refused_together():
    """Case 20: no half-random model."""
    arrays = encode(weights_of("token"), "npz").arrays
    del arrays[OLD.replace("block_0", "block_1")]
    arrays["foo/bar"] = np.zeros(2)
    message = r"(?s)2 faults.*block_1/.*query/kernel: missing.*foo/bar: no place"
    with pytest.raises(ValueError, match=message):
        decode(arrays)


def test_gaps_in_the_numbers_are_refused():
    arrays = encode(weights_of("token", depth=3), "npz").arrays
    arrays = {n: a for n, a in arrays.items() if "encoderblock_1/" not in n}
    with pytest.raises(ValueError, match=r"encoderblock_1/LayerNorm_0/scale: missing"):
        decode(arrays)


def test_weights_of_another_size_are_refused_by_name():
    """Case 21: before anything is traced."""
    arrays = encode(weights_of("token"), "npz").arrays
    with pytest.raises(ValueError, match=r"(?s)is no S/32.*width=32, must be 384.*pat"):
        decode(arrays, variant="S/32")


def test_no_blocks_no_model():
    with pytest.raises(ValueError, match="the file has no array called Transformer"):
        decode({"embedding/kernel": np.zeros((2, 2, 3, 4))})


def test_what_the_layout_has_no_place_for_is_refused():
    fields = {"layer_scale": 0.1, "pool": "gap"}
    with pytest.raises(ValueError, match="attention_scale/gamma: the layout has no pl"):
        encode(weights_of("token", **fields), "npz")
    with pytest.raises(ValueError, match=r"(?s)pool='cls_gap' must be.*bias=F"):
        encode(weights_of("token", pool="cls_gap", qkv_bias=False), "npz")


def test_what_the_file_can_not_say_is_noted(tmp_path):
    weights = weights_of("token", gelu="exact", norm_epsilon=1e-5)
    (note,) = write(weights, tmp_path / "x.npz", "npz")
    assert "can't say gelu='exact', norm_epsilon=1e-05; say it" in note
    back = read(tmp_path / "x.npz", gelu="exact", norm_epsilon=1e-5)
    assert build(back.spec) == build(weights.spec)
