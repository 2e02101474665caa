"""Tests vit_jax/data/prepare.py and records.py."""

import json

import numpy as np
import pytest
from array_record.python import array_record_module
from etils import epath
from PIL import Image

from tests.data.pictures import encoded, smooth_pixels, write_folder
from vit_jax.data import prepare as preparing
from vit_jax.data.bundled import ArraySource
from vit_jax.data.decode import UnreadableImage, decode
from vit_jax.data.encode import stored_bytes
from vit_jax.data.prepare import prepare
from vit_jax.data.records import pack, unpack
from vit_jax.data.sources import open_source


def no_progress(split, total, there):
    return lambda count: None


def prepared(sources, folder, **options):
    options = {"shard_size": 3, "shorter_side": 0, "progress": no_progress} | options
    return prepare(sources, epath.Path(folder), **options)


@pytest.fixture
def photos(tmp_path):
    write_folder(tmp_path / "photos" / "train", {"a": 5, "b": 3}, kind="jpg")
    write_folder(tmp_path / "photos" / "test", {"b": 2})
    train = open_source(str(tmp_path / "photos"), "train")
    test = open_source(str(tmp_path / "photos"), "test", class_names=("a", "b"))
    return {"train": train, "test": test}


def assert_same_examples(ours, theirs):
    assert ours.class_names == theirs.class_names
    np.testing.assert_array_equal(ours.labels(), theirs.labels())
    for index in range(len(theirs)):
        assert ours[index][:2] == theirs[index][:2]
        assert theirs.name(index) in ours[index][2]


def test_what_is_read_is_what_was_written(photos, tmp_path):
    outcomes = prepared(photos, tmp_path / "out")
    assert (outcomes["train"].written, outcomes["test"].written) == (8, 2)
    assert len(list((tmp_path / "out").glob("train-*-of-00003.array_record"))) == 3
    for split, source in photos.items():
        assert_same_examples(open_source(str(tmp_path / "out"), split), source)
    half = open_source(str(tmp_path / "out"), "train[:50%]")
    np.testing.assert_array_equal(np.sort(half.labels()), [0, 0, 0, 1])
    with pytest.raises(ValueError, match="has the splits train, test, not val"):
        open_source(str(tmp_path / "out"), "val")


def test_a_stopped_call_goes_on_and_ends_the_same(photos, tmp_path):
    class Stop(Exception):
        pass

    def stopping(split, total, there):
        counts = []

        def tick(count):
            counts.append(count)
            if len(counts) == 2:
                raise Stop

        return tick

    with pytest.raises(Stop):
        prepared(photos, tmp_path / "out", progress=stopping)
    with pytest.raises(ValueError, match="is not finished; give the"):
        open_source(str(tmp_path / "out"), "train")
    outcomes = prepared(photos, tmp_path / "out")
    assert (outcomes["train"].written, outcomes["train"].kept) == (5, 3)
    assert_same_examples(open_source(str(tmp_path / "out"), "train"), photos["train"])
    assert not list((tmp_path / "out").glob("*.tmp"))
    again = prepared(photos, tmp_path / "out")
    assert (again["train"].written, again["train"].kept) == (0, 8)


def test_other_settings_want_another_folder(photos, tmp_path):
    prepared(photos, tmp_path / "out")
    with pytest.raises(ValueError, match="with other shorter_side; prepare into anoth"):
        prepared(photos, tmp_path / "out", shorter_side=8)


def test_a_changed_source_wants_another_folder(photos, tmp_path):
    prepared({"train": photos["train"]}, tmp_path / "out")
    prepared({"test": photos["test"]}, tmp_path / "out")
    write_folder(tmp_path / "photos" / "train", {"a": 5, "b": 4}, kind="jpg")
    changed = {"train": open_source(str(tmp_path / "photos"), "train")}
    before = sorted(path.name for path in (tmp_path / "out").iterdir())
    with pytest.raises(ValueError, match="source of split train has changed since"):
        prepared(changed, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before


def test_the_same_source_spelt_otherwise_goes_on(photos, tmp_path, monkeypatch):
    prepared({"train": photos["train"]}, tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moved").symlink_to(tmp_path / "photos")
    for address in ("photos", "./photos/", "moved", str(tmp_path / "photos")):
        outcomes = prepared({"train": open_source(address, "train")}, tmp_path / "out")
        assert outcomes["train"].kept == 8
    (tmp_path / "photos" / "train" / "a" / "000.jpg").rename(
        tmp_path / "photos" / "train" / "a" / "0000.jpg"
    )
    with pytest.raises(ValueError, match="source of split train has changed since"):
        prepared({"train": open_source("photos", "train")}, tmp_path / "out")


def test_what_a_killed_call_left_goes(photos, tmp_path):
    prepared({"train": photos["train"]}, tmp_path / "out")
    shard = "train-00001-of-00003.array_record"
    (tmp_path / "out" / shard).unlink()
    (tmp_path / "out" / f"{shard}.0123.tmp").write_bytes(b"half a shard")
    assert prepared({"train": photos["train"]}, tmp_path / "out")["train"].written == 3
    assert not list((tmp_path / "out").glob("*.tmp"))


def test_progress_counts_images(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "_CHUNK", 2)
    calls = []

    def progress(split, total, there):
        calls.append((split, total, there))
        return calls.append

    prepared({"train": photos["train"]}, tmp_path / "out", progress=progress)
    assert calls == [("train", 8, 0), 2, 1, 2, 1, 2]
    (tmp_path / "out" / "train-00000-of-00003.array_record").unlink()
    calls.clear()
    prepared({"train": photos["train"]}, tmp_path / "out", progress=progress)
    assert calls == [("train", 8, 5), 2, 1]


@pytest.mark.slow
def test_workers_write_the_same_files(photos, tmp_path):
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    prepared({"train": photos["train"]}, alone, shorter_side=8)
    prepared({"train": photos["train"]}, shared, shorter_side=8, workers=2)
    names = sorted(path.name for path in alone.iterdir())
    assert names == sorted(path.name for path in shared.iterdir())
    for index in range(8):
        one, other = (open_source(str(f), "train")[index] for f in (alone, shared))
        assert one[:2] == other[:2]


def test_a_file_that_is_gone_is_named(photos, tmp_path):
    (tmp_path / "photos" / "train" / "b" / "001.jpg").unlink()
    with pytest.raises(
        UnreadableImage, match="b/001.jpg can't be read .*bring it back"
    ):
        prepared(photos, tmp_path / "out")


def test_a_shard_that_reads_back_otherwise_is_refused(photos, tmp_path, monkeypatch):
    class Forgetful:
        def __init__(self, *arguments):
            self.writer = array_record_module.ArrayRecordWriter(*arguments)
            self.close = self.writer.close

        def write(self, record):
            self.writer.write(record[:-1] + b"?")

    class Module:
        ArrayRecordWriter = Forgetful

    monkeypatch.setattr(preparing, "array_record_module", Module)
    with pytest.raises(ValueError, match="differs from what was written"):
        prepared(photos, tmp_path / "out")
    assert not list((tmp_path / "out").glob("train-*"))


def test_pixels_are_stored_without_loss(tmp_path):
    images = np.stack([smooth_pixels(8, 8, seed=number) for number in range(4)])
    source = ArraySource(images, [0, 1, 1, 0], ("x", "y"), "picture")
    prepared({"train": source}, tmp_path / "out")
    stored = open_source(str(tmp_path / "out"), "train")
    for index in range(4):
        np.testing.assert_array_equal(decode(stored[index][0], 3), images[index])


def test_larger_images_shrink_and_others_stay():
    large = encoded(Image.fromarray(smooth_pixels(60, 80)), "PNG")
    shrunk = decode(stored_bytes(large, 30), 3)
    assert shrunk.shape == (30, 40, 3)
    expected = Image.fromarray(smooth_pixels(60, 80)).resize((40, 30)).convert("L")
    luma = np.asarray(Image.fromarray(shrunk).convert("L"), int)
    assert np.abs(luma - np.asarray(expected)).mean() < 1.5
    assert stored_bytes(large, 60) is large
    assert stored_bytes(large, 0) is large
    for shorter_side in (0, 30):
        with pytest.raises(UnreadableImage):
            stored_bytes(b"no image", shorter_side)


def test_unreadable_images_are_kept_and_listed(photos, tmp_path):
    damaged = tmp_path / "photos" / "train" / "a" / "001.jpg"
    damaged.write_bytes(b"no image")
    # Found whether images are shrunk or not, and known of shards that are finished.
    for shorter_side, out in ((8, "out"), (0, "whole")):
        for _ in range(2):
            outcomes = prepared(photos, tmp_path / out, shorter_side=shorter_side)
            assert outcomes["train"].unreadable == (str(damaged),)
            assert outcomes["test"].unreadable == ()
    (tmp_path / "whole" / "train-00000-of-00003.array_record").unlink()
    damaged.write_bytes(encoded(Image.fromarray(smooth_pixels(8, 8)), "JPEG"))
    assert prepared(photos, tmp_path / "whole")["train"].unreadable == ()
    stored = open_source(str(tmp_path / "out"), "train")
    assert len(stored) == 8 and stored[1][0] == b"no image"


def test_records_hold_any_label_and_name():
    for label, name in ((0, ""), (-1, "é b.jpg"), (2**31 - 1, "x" * 300)):
        assert unpack(pack(b"bytes", label, name)) == (b"bytes", label, name)


def test_the_index_is_plain_json(photos, tmp_path):
    prepared(photos, tmp_path / "out")
    index = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert index["class_names"] == ["a", "b"]
    assert index["splits"]["train"] == {"examples": 8, "shards": 3}
