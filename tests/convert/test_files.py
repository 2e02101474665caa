"""Tests vit_jax/convert/files.py: three kinds of file, told by their content."""

import argparse
import sys

import numpy as np
import pytest
import torch

from tests.convert.ours import assert_same_arrays, put
from vit_jax.convert.files import BFLOAT16, read_arrays

ARRAYS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.arange(4).astype(BFLOAT16),
    "c": np.array(1.5, np.float16),
    "d/e": np.arange(3, dtype=np.int64),
}
KINDS = ("npz", "safetensors", "torch")


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_survive_with_type_shape_and_bits_under_any_name(kind, tmp_path):
    file = put(tmp_path / "weights.txt", kind, ARRAYS)
    stored = read_arrays(file)
    assert stored.kind == kind
    assert_same_arrays(stored.arrays, ARRAYS)


def test_metadata_of_safetensors_is_kept(tmp_path):
    file = put(tmp_path / "x", "safetensors", ARRAYS, {"vit_jax": "{}"})
    assert read_arrays(file).metadata == {"vit_jax": "{}"}


def test_torch_reads_what_is_written_with_weights_only(tmp_path):
    put(tmp_path / "x.pth", "torch", ARRAYS)
    state = torch.load(tmp_path / "x.pth", weights_only=True)
    assert state["b"].dtype == torch.bfloat16
    assert torch.equal(state["a.weight"], torch.from_numpy(ARRAYS["a.weight"]))


TENSORS = {"x.weight": torch.ones(2), "y": torch.zeros(3)}


@pytest.mark.parametrize(
    "saved",
    [
        {"state_dict": TENSORS, "epoch": 3},
        {"model": TENSORS, "args": argparse.Namespace(lr=1)},
        {"module." + name: tensor for name, tensor in TENSORS.items()},
        {"model": {"module." + name: tensor for name, tensor in TENSORS.items()}},
    ],
)
@pytest.mark.parametrize("modern", [True, False])
def test_wrappers_of_training_code_are_taken_off(saved, modern, tmp_path):
    torch.save(saved, tmp_path / "x.pth", _use_new_zipfile_serialization=modern)
    stored = read_arrays(tmp_path / "x.pth")
    assert stored.kind == "torch"
    expected = {name: tensor.numpy() for name, tensor in TENSORS.items()}
    assert_same_arrays(stored.arrays, expected)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([1, 2], "holds list, not a state dict"),
        ({"epoch": 3, "lr": 0.1}, "entries epoch, lr are no tensors"),
    ],
)
def test_torch_files_without_a_state_dict_are_refused(saved, message, tmp_path):
    torch.save(saved, tmp_path / "x.pth")
    with pytest.raises(ValueError, match=message):
        read_arrays(tmp_path / "x.pth")


class Harmful:
    """Pickles that run code are not run."""

    def __reduce__(self):
        return print, ("harm",)


def test_pickles_that_run_code_are_refused(tmp_path, capsys):
    torch.save({"state_dict": {"x": Harmful()}}, tmp_path / "x.pth")
    with pytest.raises(ValueError, match="can't be read as torch"):
        read_arrays(tmp_path / "x.pth")
    np.savez(tmp_path / "x.npz", x=np.array([Harmful()], dtype=object))
    with pytest.raises(ValueError, match="can't be read as npz"):
        read_arrays(tmp_path / "x.npz")
    assert "harm" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_were_cut_short_are_refused(kind, tmp_path):
    content = put(tmp_path / "whole", kind, ARRAYS).read_bytes()
    (tmp_path / "x").write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(
        ValueError, match=f"x can't be read as {kind} .*; delete it and get it again"
    ):
        read_arrays(tmp_path / "x")


def test_other_files_are_refused_with_what_is_known(tmp_path):
    """Case 16: told by content; the path and the known kinds are named."""
    (tmp_path / "x.npz").write_bytes(b"\x93 msgpack or anything else")
    with pytest.raises(ValueError, match=r"x.npz is not a NumPy .npz, a safet"):
        read_arrays(tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError, match="missing.npz is not there"):
        read_arrays(tmp_path / "missing.npz")


def test_without_pytorch_its_files_are_refused_and_others_read(tmp_path, monkeypatch):
    put(tmp_path / "x", "torch", ARRAYS)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"PyTorch is not installed; install vit_jax"):
        read_arrays(tmp_path / "x")
    with pytest.raises(ValueError, match="writing a PyTorch file needs PyTorch"):
        put(tmp_path / "z", "torch", ARRAYS)
    put(tmp_path / "y", "safetensors", ARRAYS)
    assert_same_arrays(read_arrays(tmp_path / "y").arrays, ARRAYS)
