"""Tests vit_jax/convert/replace.py: what --overwrite deletes, and what never."""

import dataclasses
import os

import pytest
from etils import epath

from tests.convert.ours import assert_same_arrays
from tests.convert.test_source import plain
from vit_jax.convert.replace import replaced
from vit_jax.convert.source import read
from vit_jax.convert.target import write

FOLDERS = ("timm", "huggingface", "orbax")


@pytest.mark.parametrize("layout", FOLDERS)
def test_a_folder_above_what_is_read_is_never_replaced(layout, tmp_path):
    write(plain(), tmp_path / "proj" / "m.safetensors", "timm")
    weights = read(tmp_path / "proj" / "m.safetensors")
    for dest in (tmp_path / "proj", tmp_path):
        with pytest.raises(ValueError, match="holds .*m.safetensors, which is read"):
            write(weights, dest, layout, overwrite=True)
    assert_same_arrays(read(weights.place).params, weights.params)


def test_a_file_is_not_replaced_by_what_is_read_from_it(tmp_path):
    write(plain(), tmp_path / "m.npz", "npz")
    weights = read(tmp_path / "m.npz")
    os.symlink(tmp_path / "m.npz", tmp_path / "link.npz")
    for name in ("m.npz", "link.npz"):
        with pytest.raises(ValueError, match="which is read; give another DEST"):
            write(weights, tmp_path / name, "npz", overwrite=True)


@pytest.mark.parametrize(
    "names",
    [
        ["config.json", "classes.txt", "preprocessing.json", "checkpoints"],
        ["notes.txt"],
        ["model.safetensors"],
        ["model.json", "thesis.tex"],
    ],
)
def test_folders_that_no_converter_wrote_stay(names, tmp_path):
    for name in names:
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "x" / name).write_text("mine")
    with pytest.raises(ValueError, match="x is a folder that no converter wrote"):
        write(plain(), tmp_path / "x", "orbax", overwrite=True)
    assert sorted(os.listdir(tmp_path / "x")) == sorted(names)


@pytest.mark.parametrize("layout", FOLDERS)
def test_a_converters_own_folder_is_replaced_by_any_layout(layout, tmp_path):
    write(plain(), tmp_path / "x", layout)
    other = dataclasses.replace(plain(), class_names=tuple("ABCDEFGHIJ"))
    for new in FOLDERS:
        write(other, tmp_path / "x", new, overwrite=True)
        assert read(tmp_path / "x").class_names == other.class_names
    assert os.listdir(tmp_path) == ["x"]


def test_a_folder_with_something_of_ones_own_in_it_stays(tmp_path):
    write(plain(), tmp_path / "x", "timm")
    (tmp_path / "x" / "README.md").write_text("mine")
    with pytest.raises(ValueError, match="or has other files in it"):
        write(plain(), tmp_path / "x", "timm", overwrite=True)


def test_the_old_comes_back_where_the_new_can_not_be_renamed(tmp_path, monkeypatch):
    place = epath.Path(tmp_path / "x")
    place.mkdir()
    (place / "old").write_text("old")
    real = type(place).rename

    def fails(self, target):
        if self.name.endswith(".tmp"):
            raise OSError("no")
        return real(self, target)

    monkeypatch.setattr(type(place), "rename", fails)
    with pytest.raises(OSError, match="no"), replaced(place) as fresh:
        fresh.mkdir()
    assert os.listdir(tmp_path) == ["x"] and (place / "old").read_text() == "old"
