"""Tests vit_jax/convert/places.py: runs, folders in parts, and files that lie."""

import json
import zipfile

import numpy as np
import pytest

from tests.convert.ours import assert_same_arrays, put
from tests.convert.test_source import plain
from vit_jax.convert import files
from vit_jax.convert.places import is_foreign, is_run
from vit_jax.convert.source import read
from vit_jax.convert.target import write
from vit_jax.convert.workdirs import described


def test_an_export_beside_a_run_leaves_it_a_run(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "preprocessing.json").write_text("{}")
    put(tmp_path / "model.npz", "npz", {"a": np.zeros(1)})
    assert is_run(tmp_path) and not is_foreign(tmp_path)
    with pytest.raises(ValueError, match="is a training run; vit_jax.load reads runs"):
        read(tmp_path)


def in_parts(place, kind="safetensors", index="model.safetensors.index.json"):
    """A Hugging Face folder whose weights lie in two files."""
    write(plain(), place, "huggingface")
    arrays = files.read_arrays(place / "model.safetensors").arrays
    names, shards = list(arrays), {}
    for number, part in enumerate((names[:9], names[9:])):
        file = f"part-{number}"
        put(place / file, kind, {n: arrays[n] for n in part})
        shards |= dict.fromkeys(part, file)
    (place / "model.safetensors").unlink()
    (place / index).write_text(json.dumps({"weight_map": shards}))
    return shards


def test_pytorch_files_in_parts_are_read(tmp_path):
    in_parts(tmp_path / "x", "torch", "pytorch_model.bin.index.json")
    assert_same_arrays(read(tmp_path / "x").params, plain().params)


@pytest.mark.parametrize("name", ["../part-0", "/etc/passwd", "..", ""])
def test_an_index_names_files_beside_it_alone(name, tmp_path):
    shards = in_parts(tmp_path / "x")
    shards["vit.layernorm.bias"] = name
    index = tmp_path / "x" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(ValueError, match="which is no file beside it"):
        read(tmp_path / "x")


def test_an_array_in_two_files_and_an_index_of_nothing_are_refused(tmp_path):
    in_parts(tmp_path / "x")
    both = files.read_arrays(tmp_path / "x" / "part-0").arrays
    rest = files.read_arrays(tmp_path / "x" / "part-1").arrays
    both = {name: np.array(array) for name, array in (both | rest).items()}
    put(tmp_path / "x" / "part-1", "safetensors", both)
    with pytest.raises(ValueError, match="part-1 and a file before it both have"):
        read(tmp_path / "x")
    (tmp_path / "x" / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match="has no weight_map; get the folder again"):
        read(tmp_path / "x")


def test_a_config_that_is_no_object_is_refused(tmp_path):
    write(plain(), tmp_path / "x", "timm")
    (tmp_path / "x" / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="config.json is no object; get the folder"):
        read(tmp_path / "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda said: {}, "is damaged: it lacks 'kind'"),
        (lambda said: said | {"kind": "cat"}, "is damaged: it lacks 'cat'"),
        (lambda said: said | {"fields": {"width": 3}}, "is damaged: .*missing"),
        (lambda said: said | {"preprocessing": {}}, "is damaged: image_size=None must"),
        (lambda said: said | {"class_names": "ab"}, "class_names must be a list"),
        (lambda said: said | {"loss": "hinge"}, "loss='hinge' must be one of softmax"),
        (lambda said: said | {"layout": "caffe"}, "its layout is 'caffe'; it must be"),
    ],
)
def test_a_damaged_description_in_a_file_is_named(change, message, tmp_path):
    write(plain(), tmp_path / "x.safetensors", "timm")
    stored = files.read_arrays(tmp_path / "x.safetensors")
    arrays = {name: np.array(array) for name, array in stored.arrays.items()}
    said = json.dumps(change(json.loads(described(plain(), "timm"))))
    put(tmp_path / "y.safetensors", "safetensors", arrays, {"vit_jax": said})
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "y.safetensors")


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_FREE_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(100_000))
    with pytest.raises(ValueError, match="that unpacks to 100000 holds no weights"):
        files.read_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}},
        {"a": {"dtype": "C9", "shape": [1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}},
    ],
)
def test_headers_that_lie_are_refused(header, tmp_path):
    text = json.dumps(header).encode().ljust(80)
    text = text if isinstance(header, dict) else b'{"a' + text
    content = len(text).to_bytes(8, "little") + text + bytes(8)
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="x can't be read as safetensors"):
        files.read_arrays(tmp_path / "x")


def test_types_that_safetensors_lacks_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"safetensors can't hold .*complex128"):
        put(tmp_path / "x", "safetensors", {"a": np.zeros(1, np.complex128)})
