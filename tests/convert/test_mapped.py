"""Tests vit_jax/convert/mapped.py: an .npz's arrays where they lie in the file."""

import zipfile

import numpy as np
import pytest

from tests.convert.ours import assert_same_arrays
from vit_jax.convert.mapped import map_npz
from vit_jax.convert.rules import Rule, to_ours

ARRAYS = {
    "a/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array(1.5, np.float16),
    "none": np.zeros((0, 4), np.float32),
}


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "x.npz", **ARRAYS)
    return tmp_path / "x.npz"


def test_arrays_are_the_files_and_writing_to_them_leaves_it_as_it_is(file):
    before = file.read_bytes()
    arrays = map_npz(file)
    assert_same_arrays(arrays, ARRAYS)
    assert not any(array.flags.owndata for array in arrays.values())
    arrays["a/kernel"][:] = 7
    assert file.read_bytes() == before


def test_columns_come_in_their_order(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.asfortranarray(ARRAYS["a/kernel"]))
    found = map_npz(tmp_path / "x.npz")["a"]
    np.testing.assert_array_equal(found, ARRAYS["a/kernel"])
    assert found.flags.f_contiguous


def test_what_stays_as_it_is_is_taken_from_the_file_without_a_copy(file):
    arrays = map_npz(file)
    rules = [Rule((name,), (name,), list, list) for name in arrays]
    shapes = {name: array.shape for name, array in arrays.items()}
    taken = to_ours(rules, arrays, shapes, source="x", take=True)
    assert all(taken[name] is array for name, array in arrays.items())
    copied = to_ours(rules, arrays, shapes, source="x")
    assert all(array.flags.owndata for array in copied.values())


def test_packed_entries_and_objects_are_left_to_numpy(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", **ARRAYS)
    assert map_npz(tmp_path / "x.npz") is None
    np.savez(tmp_path / "y.npz", y=np.array([{}], dtype=object))
    assert map_npz(tmp_path / "y.npz") is None


def test_a_flipped_bit_is_found(file):
    content = bytearray(file.read_bytes())
    content[content.index(ARRAYS["a/kernel"].tobytes())] ^= 1
    file.write_bytes(content)
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32 for file 'a/kernel.npy'"):
        map_npz(file)
