"""Tests vit_jax/convert/given.py: names, fields, and what files say themselves."""

import dataclasses

import numpy as np
import pytest

import vit_jax
from tests.convert.test_official import weights_of
from tests.convert.test_source import plain
from vit_jax.convert.layout import Weights, describe, shapes_of
from vit_jax.convert.source import decode, read
from vit_jax.convert.target import encode, write
from vit_jax.models.variants import resolve


def named(name, **overrides):
    """Zeros for a model of ours; nothing is computed."""
    spec = resolve(name, overrides)
    size = (spec.image_size, spec.image_size)
    params = {n: np.zeros(s, "f") for n, s in shapes_of(spec, (*size, 3)).items()}
    return Weights("orbax", spec, params, describe(size))


@pytest.mark.parametrize("layout", ["timm", "npz"])
def test_our_name_says_all_that_a_file_leaves_open(layout):
    arrays = encode(named("cifar10_tiny"), layout).arrays
    spec = decode(arrays, variant="cifar10_tiny").spec
    assert (spec.gelu, spec.norm_epsilon, spec.num_heads) == ("exact", 1e-5, 4)
    spec = decode(arrays, variant="cifar10_tiny", gelu="quick").spec
    assert (spec.gelu, spec.norm_epsilon) == ("quick", 1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", "variant=nonsense is no model of vit_jax.list_models"),
        ("vit_teeny_patch16_224", "timm has no Vision Transformer of that name"),
        ("B/17", "model 'B/17' does not exist; did you mean 'B/16'"),
        ("vit_small_patch16_224", r"(?s)is no vit_small.*width=128, must be 384"),
        ("vit_base_patch8_224", r"(?s)width=128, must be 768 or 896.*patch_size=16"),
        ("test_vit", "width=128, must be 64"),
    ],
)
def test_names_of_nothing_and_of_other_sizes_are_refused(name, message):
    arrays = encode(plain(), "timm").arrays
    with pytest.raises(ValueError, match=message):
        decode(arrays, variant=name, num_heads=2)


def test_the_note_on_guesses_names_what_is_guessed():
    arrays = encode(plain(), "timm").arrays
    notes = decode(arrays, num_heads=2).notes
    assert "GELU and epsilon: as most of timm's" in notes
    notes = decode(arrays, num_heads=2, gelu="exact", norm_epsilon=1e-6).notes
    assert not any("as most of timm's" in note for note in notes)


@pytest.mark.parametrize("name", ["x", "x.safetensors"])
def test_what_says_all_of_itself_is_not_told_otherwise(name, tmp_path):
    layout = "orbax" if name == "x" else "timm"
    weights = plain()
    write(weights, tmp_path / name, layout)
    spec = weights.spec
    same = read(
        tmp_path / name, gelu="exact", num_heads=spec.num_heads, mean=(0.5,) * 3
    )
    assert same.class_names == weights.class_names
    message = (
        r"(?s)says of itself what it is; leave out:\n  gelu='quick', it has 'exact'"
    )
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, gelu="quick")
    with pytest.raises(ValueError, match=r"mean=\(0.1,\), it has"):
        read(tmp_path / name, mean=[0.1])
    with pytest.raises(ValueError, match=r"is no S/16; it has"):
        read(tmp_path / name, variant="S/16")
    with pytest.raises(ValueError, match="models have no field gellu"):
        read(tmp_path / name, gellu="exact")


def test_a_hugging_face_folder_is_not_told_otherwise(tmp_path):
    write(plain(), tmp_path / "x", "huggingface")
    with pytest.raises(ValueError, match="leave out:\n  gelu='quick', it has 'exact'"):
        read(tmp_path / "x", gelu="quick")


@pytest.mark.parametrize(
    ("layout", "name"),
    [("orbax", "x"), ("timm", "x"), ("huggingface", "x"), ("timm", "x.safetensors")],
)
def test_no_classes_leaves_head_and_names_out(layout, name, tmp_path):
    write(plain(), tmp_path / name, layout)
    loaded = vit_jax.load(tmp_path / name, num_classes=0)
    assert "head" not in loaded.params and loaded.class_names == ()
    assert loaded.spec.num_classes == 0 and loaded.model.head is None
    assert "head of 10 left out" in loaded.notes


def test_class_names_of_another_number_are_left_out_and_said(tmp_path):
    weights = dataclasses.replace(plain(), class_names=("a", "b"))
    write(weights, tmp_path / "x.safetensors", "timm")
    back = read(tmp_path / "x.safetensors")
    assert back.class_names == ()
    assert "class names left out: there are 2 for 10 classes" in back.notes


def test_a_head_of_two_that_is_zero_is_said():
    weights = weights_of("token", pool="distilled", num_registers=1, gelu="exact")
    arrays = encode(weights, "timm").arrays
    for name in ("head.weight", "head_dist.weight"):
        arrays[name] = np.zeros_like(arrays[name])
    notes = decode(arrays, num_heads=4).notes
    assert any("the head is all zeros" in note for note in notes)
