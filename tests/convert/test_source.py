"""Tests vit_jax/convert/source.py and target.py: places, names, whole or nothing."""

import dataclasses
import os

import jax
import numpy as np
import pytest

import vit_jax
from tests.convert.ours import assert_same_arrays
from tests.convert.peers import images_of
from tests.convert.test_official import weights_of
from vit_jax.convert import workdirs, writing
from vit_jax.convert.files import BFLOAT16
from vit_jax.convert.layout import build
from vit_jax.convert.source import decode, read
from vit_jax.convert.target import LAYOUTS, encode, write

DESTS = {
    "timm folder": ("timm", "x"),
    "timm torch": ("timm", "x.pth"),
    "timm safetensors": ("timm", "x.safetensors"),
    "huggingface folder": ("huggingface", "x"),
    "huggingface safetensors": ("huggingface", "x.safetensors"),
    "torchvision torch": ("torchvision", "x.bin"),
    "torchvision safetensors": ("torchvision", "x.safetensors"),
    "npz": ("npz", "x.npz"),
    "orbax folder": ("orbax", "x"),
}


def plain(**overrides):
    """Random weights that every layout can hold."""
    weights = weights_of("token", gelu="exact", width=128, num_heads=2, **overrides)
    weights.preprocessing.update(resize="center", crop_fraction=0.5)
    return dataclasses.replace(weights, class_names=tuple("abcdefghij"))


def read_all(place, weights):
    """The weights back, with what a bare file can't say."""
    bare = place.suffix in (".pth", ".bin", ".npz")
    fields = {"gelu": "exact", "num_heads": 2} if bare else {}
    return read(place, **fields)


@pytest.mark.parametrize("dest", DESTS)
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16], ids=["float32", "bfloat16"])
def test_every_target_reads_back_bit_by_bit(dest, dtype, tmp_path):
    layout, name = DESTS[dest]
    weights = plain()
    params = {n: a.astype(dtype) for n, a in weights.params.items()}
    weights = dataclasses.replace(weights, params=params)
    place = tmp_path / "deeper" / name
    write(weights, place, layout)
    assert os.listdir(tmp_path / "deeper") == [name]
    back = read_all(place, weights)
    assert back.layout == layout
    assert build(back.spec) == build(weights.spec)
    assert_same_arrays(back.params, params)
    if "folder" in dest or "safetensors" in dest:
        assert back.preprocessing == weights.preprocessing
        assert "torchvision" in dest or back.class_names == weights.class_names


@pytest.mark.parametrize("dest", ["timm folder", "npz"])
def test_load_gives_a_model_that_runs(dest, tmp_path):
    layout, name = DESTS[dest]
    weights = plain()
    write(weights, tmp_path / name, layout)
    loaded = vit_jax.load(tmp_path / name, gelu="exact")
    logits = jax.jit(loaded.model.apply)({"params": loaded.params}, images_of((32, 32)))
    assert logits.shape == (2, 10) and loaded.step == 0
    names = "abcdefghij" if layout == "timm" else ""
    assert "".join(loaded.class_names) == names


def test_a_layer_without_parameters_leaves_no_entry(tmp_path):
    """Case 26: without a tanh layer the tree is the same before and after."""
    weights = plain()
    assert weights.spec.representation_size == 0
    write(weights, tmp_path / "x", "orbax")
    loaded = vit_jax.load(tmp_path / "x")
    images = jax.ShapeDtypeStruct((1, 32, 32, 3), np.float32)
    fresh = jax.eval_shape(loaded.model.init, jax.random.key(0), images)["params"]
    assert jax.tree.structure(loaded.params) == jax.tree.structure(fresh)
    assert "pre_logits" not in loaded.params


def test_notes_of_a_load_are_reported_once(tmp_path):
    weights = plain()
    head = {n: np.zeros_like(weights.params[n]) for n in ("head/kernel", "head/bias")}
    weights = dataclasses.replace(weights, params=weights.params | head)
    write(weights, tmp_path / "x.npz", "npz")
    loaded = vit_jax.load(tmp_path / "x.npz")
    lines = loaded.report()
    assert lines == tuple(f"note: {note}" for note in loaded.notes)
    assert sum("all zeros" in line for line in lines) == 1
    bare = dataclasses.replace(loaded, notes=()).report()
    assert len(bare) == 1 and "all zeros" in bare[0]


def test_other_sizes_of_the_table_need_the_image_size():
    weights = weights_of("token")
    arrays = encode(weights, "npz").arrays
    name = "Transformer/posembed_input/pos_embedding"
    arrays[name] = np.ones((1, 1 + 6, 32), "f")
    with pytest.raises(ValueError, match=r"has 6 rows for patches.*--image_size"):
        decode(arrays)
    with pytest.raises(ValueError, match=r"and not that of image_size=\(32, 32\)"):
        decode(arrays, image_size=(32, 32))
    assert decode(arrays, image_size=(32, 48)).image_shape == (32, 48, 3)


def test_an_existing_target_stays_unless_it_may_be_replaced(tmp_path):
    for layout, name in (("npz", "x.npz"), ("orbax", "folder")):
        place = tmp_path / name
        place.mkdir() if layout == "orbax" else place.write_text("mine")
        with pytest.raises(FileExistsError, match=f"{name} is there already; --overwr"):
            write(plain(), place, layout)
        write(plain(), place, layout, overwrite=True)
        assert_same_arrays(read(place).params, plain().params)
    assert sorted(os.listdir(tmp_path)) == ["folder", "x.npz"]


def test_a_write_that_reads_back_otherwise_keeps_nothing(tmp_path, monkeypatch):
    real = writing.write_arrays

    def damaged(file, kind, arrays, metadata):
        real(file, kind, arrays | {"cls": arrays["cls"] + 1}, metadata)

    monkeypatch.setattr(writing, "write_arrays", damaged)
    (tmp_path / "x.npz").write_text("mine")
    with pytest.raises(OSError, match=r"reads back otherwise \(cls\); nothing"):
        write(plain(), tmp_path / "x.npz", "npz", overwrite=True)
    assert (tmp_path / "x.npz").read_text() == "mine"
    assert os.listdir(tmp_path) == ["x.npz"]


@pytest.mark.parametrize(
    ("layout", "name", "message"),
    [
        ("caffe", "x", f"--to=caffe must be one of {', '.join(LAYOUTS)}"),
        ("npz", "x.pth", "x.pth and --to=npz don't go together"),
        ("timm", "x.npz", "x.npz and --to=timm don't go together"),
        ("torchvision", "x", "torchvision has no folder for this model; give DEST.pth"),
        ("orbax", "x.pth", "--to=orbax writes a folder; x.pth names a file"),
    ],
)
def test_names_that_do_not_go_with_the_layout_are_refused(
    layout, name, message, tmp_path
):
    with pytest.raises(ValueError, match=message):
        write(plain(), tmp_path / name, layout)
    assert not os.listdir(tmp_path)


def test_a_resnet_is_written_as_our_folder_and_timms_file(tmp_path):
    from vit_jax.convert.layout import Weights, describe, shapes_of
    from vit_jax.models.variants import resolve

    fields = {"stem_units": (1,), "num_classes": 3, "image_size": 32}
    spec = resolve("R50x1", fields)
    params = {n: np.ones(s, "f") for n, s in shapes_of(spec, (32, 32, 3)).items()}
    weights = Weights("orbax", spec, params, describe((32, 32)))
    with pytest.raises(ValueError, match="layout npz has no BiT ResNet"):
        write(weights, tmp_path / "x.npz", "npz")
    for name, layout in (("x", "orbax"), ("x.safetensors", "timm")):
        write(weights, tmp_path / name, layout)
        back = read(tmp_path / name)
        assert back.spec == spec
        assert_same_arrays(back.params, params)


@pytest.mark.parametrize("name", ["x", "x.safetensors", "x.pth"])
def test_a_grey_resnet_stays_grey(name, tmp_path):
    from vit_jax.convert.layout import Weights, describe, shapes_of
    from vit_jax.models.variants import resolve

    fields = {"stem_units": (1,), "num_classes": 3, "image_size": 32}
    spec = resolve("R50x1", fields | {"conv_epsilon": 0.0})
    shapes = shapes_of(spec, (32, 32, 1))
    random = np.random.default_rng(0)
    params = {n: random.normal(size=s).astype("f") for n, s in shapes.items()}
    assert params["root/kernel"].shape[2] == 1
    weights = Weights("orbax", spec, params, describe((32, 32), channels=1))
    write(weights, tmp_path / name, "orbax" if name == "x" else "timm")
    back = vit_jax.load(tmp_path / name, image_size=(32,))
    assert back.preprocessing["channels"] == len(back.preprocessing["mean"]) == 1
    logits = jax.jit(back.model.apply)
    images = images_of((32, 32))[..., :1]
    meant = jax.jit(build(spec).apply)({"params": back.params}, images)
    np.testing.assert_array_equal(logits({"params": back.params}, images), meant)


def test_places_that_are_nothing_known_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not there; give a workdir"):
        read(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="has neither a config.json nor one"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"names of no known layout \(a, b, …\)"):
        decode({"a": np.zeros(1), "b": np.zeros(1)})


def test_a_folder_with_one_file_of_weights_is_read(tmp_path):
    write(plain(), tmp_path / "x" / "model.npz", "npz")
    assert_same_arrays(read(tmp_path / "x").params, plain().params)


def test_a_damaged_description_is_named(tmp_path):
    write(plain(), tmp_path / "x", "orbax")
    file = tmp_path / "x" / workdirs.MODEL
    file.write_text(file.read_text().replace('"width": 128', '"width": 127'))
    with pytest.raises(ValueError, match=r"(?s)model.json or .* is damaged: width=127"):
        read(tmp_path / "x")


def test_a_run_is_left_to_load(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="is a training run.*vit_jax.load reads runs"):
        read(tmp_path)
