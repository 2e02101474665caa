"""Tests vit_jax/convert/unsaid.py: no layout gives another model back in silence."""

import dataclasses

import pytest

from tests.convert.test_official import weights_of
from tests.convert.test_source import plain
from vit_jax.convert import timm
from vit_jax.convert.source import decode, read
from vit_jax.convert.target import encode, write
from vit_jax.convert.unsaid import differences

EXACT = {"gelu": "exact", "width": 128, "num_heads": 2}
# What a state dict of timm's can't say, and its folder says or keeps.
FORMS = {
    "mean beside a class token": {"pool": "gap", "class_token": True},
    "mean of registers too": {"pool": "gap", "num_registers": 2, "pool_prefix": True},
    "epsilon": {"norm_epsilon": 1e-12},
    "quick": {"gelu": "quick"},
    "heads": {"num_heads": 4},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_timm_folder_gives_the_same_model_back(form, tmp_path):
    weights = weights_of("token", **(EXACT | FORMS[form]))
    notes = write(weights, tmp_path / "x", "timm")
    back = read(tmp_path / "x")
    assert not differences(weights.spec, back.spec)
    assert any("norm_epsilon=1e-06, where" in n for n in notes) == (form == "epsilon")


@pytest.mark.parametrize(
    ("form", "layout"),
    # An .npz has no registers, and has the heads in its shapes.
    [(form, "timm") for form in FORMS]
    + [(form, "npz") for form in ("mean beside a class token", "epsilon", "quick")],
)
def test_a_bare_file_says_what_it_can_not(form, layout, tmp_path):
    weights = weights_of("token", **(EXACT | FORMS[form]))
    name = "x.npz" if layout == "npz" else "x.pth"
    notes = write(weights, tmp_path / name, layout)
    found = read(tmp_path / name, num_heads=weights.spec.num_heads).spec
    text = "\n".join(notes)
    assert form == "heads" or differences(weights.spec, found)
    for field, (value, _) in differences(weights.spec, found).items():
        assert f"{field}={value!r}" in text
    # No model of timm's is 128 wide.
    assert (f"num_heads={weights.spec.num_heads}" in text) == (layout == "timm")


def test_a_hybrids_epsilons_survive_timms_folder(tmp_path):
    weights = weights_of("root alone", gelu="exact", stem_width=64)
    notes = "\n".join(write(weights, tmp_path / "x", "timm"))
    assert "conv_epsilon=0.0, where this one has 1e-05" in notes
    assert "group_norm_epsilon=1e-05, where this one has 1e-06" in notes
    spec = read(tmp_path / "x").spec
    assert (spec.conv_epsilon, spec.group_norm_epsilon) == (1e-5, 1e-6)


def test_a_rectangle_labels_pictures_and_loss_are_noted(tmp_path):
    weights = weights_of("token", **EXACT)
    size = {"image_size": [32, 48], "crop_fraction": 0.5}
    table = weights.params["position/table"]
    weights = dataclasses.replace(
        weights,
        params=weights.params | {"position/table": table[:, [0, 1, 2, 3, 4, 1, 2]]},
        preprocessing=weights.preprocessing | size | {"resize": "center"},
        class_names=tuple("abcdefghij"),
        loss="sigmoid",
    )
    for name, layout in (("x.npz", "npz"), ("x.pth", "timm"), ("y.pth", "torchvision")):
        notes = "\n".join(write(weights, tmp_path / name, layout))
        assert "image_size=(32, 48)" in notes
        assert "what images it takes, which is mean 0.5, std 0.5, center crop" in notes
        assert "can't say class names and the sigmoid loss" in notes


def test_a_file_of_hugging_faces_names_says_what_it_needs(tmp_path):
    (note,) = write(plain(), tmp_path / "x.pth", "huggingface")
    assert "needs a config.json beside it" in note


@pytest.mark.parametrize(
    ("layout", "name"),
    [("orbax", "x"), ("timm", "x"), ("huggingface", "x"), ("timm", "x.safetensors")],
)
def test_the_loss_goes_with_the_weights(layout, name, tmp_path):
    write(dataclasses.replace(plain(), loss="sigmoid"), tmp_path / name, layout)
    assert read(tmp_path / name).loss == "sigmoid"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"act_layer": "silu"}, "act_layer='silu' of a plain MLP has no model here"),
        ({"global_pool": "max"}, "global_pool='max' must be one of token, avg, map"),
        ({"norm_layer": "simplenorm"}, "norm_layer='simplenorm' must be one of layern"),
    ],
)
def test_arguments_of_other_models_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        arrays = encode(plain(), "timm").arrays
        timm.read(arrays, "vit_base_patch16_224", {"num_heads": 2} | arguments)


def test_a_norm_before_the_blocks_goes_without_a_bias_there():
    weights = weights_of("token", first_norm=True, **EXACT)
    with pytest.raises(ValueError, match="stem_bias=True must be False, as first_norm"):
        encode(weights, "timm")
    weights = weights_of("token", first_norm=True, stem_bias=False, **EXACT)
    assert decode(encode(weights, "timm").arrays, num_heads=2).spec.first_norm
