"""Tests vit_jax/data/records.py: sets that are damaged."""

import json

import numpy as np
import pytest
from etils import epath

from vit_jax.data.prepare import prepare
from vit_jax.data.records import INDEX, open_records, pack, unpack
from vit_jax.data.sources import Subset, open_source


@pytest.fixture
def folder(tmp_path):
    again(tmp_path)
    return epath.Path(tmp_path)


def again(path):
    source = Subset(open_source("digits", "test"), np.arange(12))
    made = prepare(
        {"test": source},
        epath.Path(path),
        shard_size=6,
        shorter_side=0,
        progress=lambda *_: lambda _: None,
    )
    return made["test"]


def test_a_record_holds_any_name():
    assert unpack(pack(b"pixels", 3, "a/\udcff.png"))[:2] == (b"pixels", 3)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"class_names": 3, "splits": {}}'])
def test_a_damaged_index_is_named(folder, text):
    (folder / INDEX).write_text(text)
    with pytest.raises(ValueError, match=r"dataset\.json is damaged"):
        open_records(folder, "test")


def test_an_unfinished_set_says_so(folder):
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps(index | {"splits": {}}))
    with pytest.raises(ValueError, match="is not finished; give the"):
        open_records(folder, "test")


def test_labels_of_another_number_are_refused(folder):
    np.save(folder / "test.labels.npy", np.zeros(3, np.int32))
    with pytest.raises(ValueError, match=r"examples differ: 12 in .*, 3 in .*labels"):
        open_records(folder, "test")


def test_a_cut_shard_is_refused_and_written_anew(folder):
    shard = folder / "test-00001-of-00002.array_record"
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is damaged or missing|examples differ"):
        open_records(folder, "test")
    assert (again(folder).written, again(folder).written) == (6, 0)
    assert len(open_records(folder, "test")) == 12


def test_a_file_as_destination_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file is a file; name a folder"):
        again(tmp_path / "file")
