"""Tests vit_jax/data/sources.py and the kinds of sources that it opens."""

import gzip
import hashlib
import json
import os
import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.data.pictures import smooth_pixels, write_folder
from vit_jax.data.decode import decode
from vit_jax.data.files import find_images
from vit_jax.data.idx import read_idx
from vit_jax.data.sources import class_balanced_share, open_source


def labels_of(source):
    labels = [source[index][1] for index in range(len(source))]
    np.testing.assert_array_equal(source.labels(), labels)
    return labels


def test_images_of_any_kind_and_case_are_found_and_nothing_else(tmp_path):
    folder = tmp_path / "train" / "cats"
    folder.mkdir(parents=True)
    for name in ("a.jpg", "b.JPG", "c.jpeg", "d.png", "e.webp", "f.txt", ".g.jpg"):
        (folder / name).write_bytes(b"")
    (folder / "deep").mkdir()
    (folder / "deep" / "h.TIF").write_bytes(b"")
    source = open_source(str(tmp_path), "train")
    found = [Path(source.name(index)).name for index in range(len(source))]
    assert found == ["a.jpg", "b.JPG", "c.jpeg", "d.png", "h.TIF", "e.webp"]


def test_classes_are_folders_in_byte_order_and_an_empty_one_keeps_its_id(tmp_path):
    names = ["10", "2", "1", "b", "B", "é", "a b"]
    write_folder(tmp_path / "train", dict.fromkeys(names, 1) | {"B": 0})
    (tmp_path / "train" / ".hidden").mkdir()
    source = open_source(str(tmp_path), "train")
    assert source.class_names == ("1", "10", "2", "B", "a b", "b", "é")
    assert labels_of(source) == [0, 1, 2, 4, 5, 6]


def test_links_are_followed_once(tmp_path):
    write_folder(tmp_path / "elsewhere", {"a": 2})
    (tmp_path / "set" / "train").mkdir(parents=True)
    os.symlink(tmp_path / "elsewhere" / "a", tmp_path / "set" / "train" / "a")
    os.symlink(tmp_path / "elsewhere" / "a", tmp_path / "elsewhere" / "a" / "loop")
    assert len(open_source(str(tmp_path / "set"), "train")) == 2


def test_an_image_comes_with_its_bytes_and_path(tmp_path):
    write_folder(tmp_path / "train", {"a": 1, "b": 1})
    source = open_source(str(tmp_path), "train")
    data, label, name = source[1]
    assert (label, name) == (1, str(tmp_path / "train" / "b" / "000.png"))
    np.testing.assert_array_equal(decode(data, 3), smooth_pixels(12, 16, seed=100))


@pytest.mark.parametrize("folder", ["val", "validation", "valid"])
def test_validation_has_three_names(tmp_path, folder):
    write_folder(tmp_path / folder, {"a": 1})
    for split in ("val", "validation", "valid"):
        assert len(open_source(str(tmp_path), split)) == 1


def test_one_tree_is_split_by_percentages(tmp_path):
    write_folder(tmp_path, {"a": 20, "b": 10})
    whole = open_source(str(tmp_path), "all")
    train, test = (open_source(str(tmp_path), s) for s in ("all[:80%]", "all[80%:]"))
    assert (len(whole), len(train), len(test)) == (30, 24, 6)
    names = [{s.name(i) for i in range(len(s))} for s in (whole, train, test)]
    assert names[1] | names[2] == names[0] and not names[1] & names[2]
    np.testing.assert_array_equal(np.bincount(train.labels()), [16, 8])
    again = open_source(str(tmp_path), "all[:80%]")
    assert [again.name(i) for i in range(24)] == [train.name(i) for i in range(24)]


def test_parts_may_be_counts_and_never_run_over(tmp_path):
    write_folder(tmp_path / "train", {"a": 4})
    sizes = {
        split: len(open_source(str(tmp_path), split))
        for split in ("train[:3]", "train[3:]", "train[1:2]", "train[:99]", "train[:]")
    }
    assert sizes == {
        "train[:3]": 3,
        "train[3:]": 1,
        "train[1:2]": 1,
        "train[:99]": 4,
        "train[:]": 4,
    }


@pytest.mark.parametrize("split", ["", "train[", "train[1]", "train[a:]", "[:1]"])
def test_a_split_that_means_nothing_is_refused(split):
    with pytest.raises(ValueError, match="must be a name such as train"):
        open_source("digits", split)


def test_an_empty_part_is_refused():
    with pytest.raises(ValueError, match="holds no examples; widen it"):
        open_source("digits", "train[:0]")


def test_missing_splits_are_named_with_those_there(tmp_path):
    write_folder(tmp_path / "train", {"a": 1})
    write_folder(tmp_path / "val", {"a": 1})
    with pytest.raises(FileNotFoundError, match="no split test; it has train, val"):
        open_source(str(tmp_path), "test")
    write_folder(tmp_path / "tree", {"a": 1})
    with pytest.raises(FileNotFoundError, match=r"data.train.split=all\[:90%\]"):
        open_source(str(tmp_path / "tree"), "train")


def test_folders_without_images_are_refused(tmp_path):
    (tmp_path / "train" / "a").mkdir(parents=True)
    (tmp_path / "train" / "a" / "note.txt").write_text("no image")
    with pytest.raises(ValueError, match="holds no images in class folders"):
        open_source(str(tmp_path), "train")


def test_a_path_to_nothing_and_to_a_foreign_file_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="neither a file, a folder, digits nor"):
        open_source(str(tmp_path / "nowhere"), "train")
    (tmp_path / "set.xlsx").write_text("")
    with pytest.raises(ValueError, match="is a file and no manifest"):
        open_source(str(tmp_path / "set.xlsx"), "train")


def test_the_classes_of_training_count(tmp_path):
    write_folder(tmp_path / "test", {"b": 1, "c": 1})
    source = open_source(str(tmp_path), "test", class_names=("a", "b", "c"))
    assert source.class_names == ("a", "b", "c")
    assert labels_of(source) == [1, 2]
    assert source.name(0).endswith("b/000.png")
    with pytest.raises(ValueError, match="the training data lacks: c; remove"):
        open_source(str(tmp_path), "test", class_names=("a", "b"))


def test_sources_can_be_sent_to_workers(tmp_path):
    write_folder(tmp_path / "train", {"a": 2, "b": 2})
    for address, split in ((str(tmp_path), "train[:50%]"), ("digits", "test")):
        source = open_source(address, split)
        copy = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(copy.labels(), source.labels())
        assert len(copy) == len(source) and copy.name(0) == source.name(0)


def test_a_share_is_balanced_and_drawn_by_the_seed():
    digits = open_source("digits", "train")
    shares = [class_balanced_share(digits, 0.05, seed) for seed in (0, 0, 1)]
    assert {len(share) for share in shares} == {72}
    assert np.ptp(np.bincount(shares[0].labels())) <= 2
    names = [[share.name(i) for i in range(72)] for share in shares]
    assert names[0] == names[1] != names[2]
    assert len(class_balanced_share(digits, 1e-6, 0)) == 1


def write_manifest_images(folder: Path) -> None:
    write_folder(folder / "images", {"x": 2, "y": 1})


CSV = "path,label\nimages/x/000.png,dog\nimages/x/001.png,cat\nimages/y/000.png,dog\n"


def test_a_csv_is_the_split_all(tmp_path):
    write_manifest_images(tmp_path)
    (tmp_path / "list.csv").write_text(CSV)
    source = open_source(str(tmp_path / "list.csv"), "all")
    assert source.class_names == ("cat", "dog")
    assert labels_of(source) == [1, 0, 1]
    assert source.name(0) == str(tmp_path / "images" / "x" / "000.png")
    with pytest.raises(ValueError, match="has no split train; it has all"):
        open_source(str(tmp_path / "list.csv"), "train")


def test_json_lines_may_name_splits_and_absolute_paths(tmp_path):
    write_manifest_images(tmp_path)
    absolute = str(tmp_path / "images" / "y" / "000.png")
    rows = [
        {"path": "images/x/000.png", "label": 7, "split": "train"},
        {"path": absolute, "label": 3, "split": "test"},
    ]
    file = tmp_path / "list.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    train, test = (open_source(str(file), split) for split in ("train", "test"))
    assert train.class_names == test.class_names == ("3", "7")
    assert (labels_of(train), labels_of(test)) == ([1], [0])
    assert test.name(0) == absolute


def test_a_folder_may_have_a_manifest_for_each_split(tmp_path):
    write_manifest_images(tmp_path)
    (tmp_path / "train.csv").write_text(CSV)
    (tmp_path / "test.jsonl").write_text('{"path": "images/x/000.png", "label": "dog"}')
    assert len(open_source(str(tmp_path), "train")) == 3
    assert len(open_source(str(tmp_path), "train[:2]")) == 2
    assert labels_of(open_source(str(tmp_path), "test")) == [0]


def test_a_list_of_one_split_may_name_that_split_and_no_other(tmp_path):
    write_manifest_images(tmp_path)
    rows = "path,label,split\nimages/x/000.png,dog,train\nimages/y/000.png,cat,\n"
    (tmp_path / "train.csv").write_text(rows)
    assert labels_of(open_source(str(tmp_path), "train")) == [1, 0]
    (tmp_path / "train.csv").write_text(rows + "images/x/001.png,dog,test\n")
    message = "train.csv, row 3: it names the split test in a list of the split train"
    with pytest.raises(ValueError, match=message):
        open_source(str(tmp_path), "train")


def peak_bytes(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_long_list_takes_little_memory(tmp_path, kind):
    count = 200_000
    file = tmp_path / f"list.{kind}"
    with open(file, "w") as opened:
        opened.write("path,label\n" if kind == "csv" else "")
        for number in range(count):
            path, label = f"images/{number % 1000:04}/{number:08}.jpg", number % 1000
            row = (path, label) if kind == "csv" else {"path": path, "label": label}
            opened.write(
                f"{path},{label}\n" if kind == "csv" else json.dumps(row) + "\n"
            )
    opened = []
    peak = peak_bytes(lambda: opened.append(open_source(str(file), "all")))
    # A path has 24 bytes; a dict a row would take 400.
    assert peak < 80 * count
    (source,) = opened
    assert source.name(-1).endswith(f"images/0999/{count - 1:08}.jpg")
    assert peak_bytes(lambda: [source.name(i) for i in range(0, count, 7)][:0]) < 40e6


def test_listing_a_local_folder_asks_for_no_file(tmp_path, monkeypatch):
    folder = tmp_path / "train" / "a"
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"{number}.jpg").write_bytes(b"")
    asked = []
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda *a, **k: asked.append(a) or real(*a, **k))
    assert len(open_source(str(tmp_path), "train")) == 50
    assert len(asked) < 25


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "path,label\nx.png,\n", "row 1: it must have path and label"),
        ("a.csv", "file,class\nx.png,a\n", "row 1: it must have path and label"),
        ("a.jsonl", '{"path": "x.png"}\n', "row 1: it must have path and label"),
        ("a.jsonl", "{oops\n", "line 1 is no JSON object"),
        ("a.jsonl", "17\n", "line 1 is no JSON object"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        open_source(str(tmp_path / name), "all")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"path,label\na.jpg,cat,fat\n",
            "row 1: it has more values than the 2 columns",
        ),
        (b"path,label\n" + b"a" * 200_000 + b",cat\n", "line 2: field larger than"),
        (b"path,label\n\xff.jpg,cat\n", r"is no UTF-8 text \(byte 11\)"),
        (b"path,label\n", "lists no images"),
        (b"", "lists no images"),
    ],
)
def test_a_csv_that_is_none_is_refused(tmp_path, content, message):
    (tmp_path / "list.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        open_source(str(tmp_path / "list.csv"), "all")


def idx_bytes(array: np.ndarray) -> bytes:
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


def write_idx(
    folder: Path, count: int, prefix: str, pack=lambda data: data, end=""
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (count, 5, 4), np.uint8)
    labels = np.arange(count, dtype=np.uint8) % 3
    folder.mkdir(exist_ok=True)
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        (folder / f"{prefix}-{name}-ubyte{end}").write_bytes(pack(idx_bytes(array)))


def test_idx_files_are_read_plain_and_gzipped(tmp_path):
    write_idx(tmp_path / "mnist", 7, "train")
    write_idx(tmp_path / "mnist", 4, "t10k", gzip.compress, ".gz")
    train, test = (open_source(str(tmp_path / "mnist"), s) for s in ("train", "test"))
    assert (len(train), len(test)) == (7, 4)
    assert train.class_names == ("0", "1", "2")
    assert labels_of(train) == [0, 1, 2, 0, 1, 2, 0]
    assert train[0][0].shape == (5, 4)
    (tmp_path / "mnist" / "classes.txt").write_text("shirt\nshoe\nbag\n")
    named = open_source(str(tmp_path / "mnist"), "train")
    assert named.class_names == ("shirt", "shoe", "bag")
    with pytest.raises(ValueError, match="has the splits train and test, not val"):
        open_source(str(tmp_path / "mnist"), "val")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shirt\nshoe\n", "classes.txt lists 2 classes and the labels go up to 2"),
        ("shirt\n\nbag\n", "classes.txt: class '' must be one line"),
        ("shirt\nbag\nbag\n", "classes.txt: class 'bag' must be listed once"),
    ],
)
def test_a_list_of_classes_that_does_not_fit_is_refused(tmp_path, text, message):
    write_idx(tmp_path / "mnist", 7, "train")
    (tmp_path / "mnist" / "classes.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        open_source(str(tmp_path / "mnist"), "train")


def test_a_class_that_no_image_has_keeps_its_line(tmp_path):
    write_idx(tmp_path / "mnist", 7, "train")
    (tmp_path / "mnist" / "classes.txt").write_text("shirt\nshoe\nbag\nboot\n")
    source = open_source(str(tmp_path / "mnist"), "train")
    assert source.class_names == ("shirt", "shoe", "bag", "boot")


def test_damaged_idx_files_are_refused(tmp_path):
    write_idx(tmp_path / "mnist", 7, "train")
    images = tmp_path / "mnist" / "train-images-idx3-ubyte"
    labels = tmp_path / "mnist" / "train-labels-idx1-ubyte"
    whole = images.read_bytes()
    images.write_bytes(whole[:-3])
    with pytest.raises(ValueError, match="train-images.* is damaged: it holds 137"):
        open_source(str(tmp_path / "mnist"), "train")
    images.write_bytes(b"text")
    with pytest.raises(ValueError, match="it is no IDX file of unsigned bytes"):
        open_source(str(tmp_path / "mnist"), "train")
    images.write_bytes(whole)
    labels.write_bytes(idx_bytes(np.zeros(6, np.uint8)))
    with pytest.raises(ValueError, match="7 images and 6 labels"):
        open_source(str(tmp_path / "mnist"), "train")
    labels.unlink()
    with pytest.raises(FileNotFoundError, match="has no train-labels-idx file"):
        open_source(str(tmp_path / "mnist"), "train")


def test_fashion_mnist_as_debian_installs_it():
    files = list(Path("/usr/share").glob("**/train-images-idx3-ubyte*"))
    if not files:
        pytest.skip("needs the Debian package dataset-fashion-mnist")
    source = open_source(str(files[0].parent), "train")
    assert len(source) == 60_000 and source[0][0].shape == (28, 28)
    np.testing.assert_array_equal(np.bincount(source.labels()), 6000)


def test_idx_arrays_of_any_rank():
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.testing.assert_array_equal(read_idx(idx_bytes(array)), array)
    np.testing.assert_array_equal(read_idx(gzip.compress(idx_bytes(array))), array)


def test_digits_splits_are_complete_and_apart():
    train, test = (open_source("digits", split) for split in ("train", "test"))
    assert (len(train), len(test)) == (1437, 360)
    image, label, name = test[3]
    assert image.shape == (8, 8) and image.dtype == np.uint8 and image.max() == 255
    assert name == "digits test 3" and 0 <= label < 10
    with pytest.raises(
        ValueError, match="digits has the splits train and test, not val"
    ):
        open_source("digits", "val")


def test_the_split_of_the_digits_never_changes():
    digests = {}
    for split in ("train", "test"):
        source = open_source("digits", split)
        digest = hashlib.sha256(source.labels().tobytes())
        for index in range(len(source)):
            digest.update(source[index][0].tobytes())
        digests[split] = digest.hexdigest()[:16]
    assert digests == {"train": "59cbe8621e707bdb", "test": "491c5bc39c6b5bfb"}


def test_files_and_folders_to_predict_are_found(tmp_path):
    write_folder(tmp_path / "set", {"a": 2, "b": 1})
    single = tmp_path / "photo.bin"
    single.write_bytes(b"")
    files = find_images([single, tmp_path / "set"])
    assert [Path(file).name for file in files] == [
        "photo.bin",
        "000.png",
        "001.png",
        "000.png",
    ]
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        find_images([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty holds no images"):
        find_images([tmp_path / "empty"])


@pytest.mark.parametrize("split", ["train[%:50%]", "train[:300%]", "train[a:]"])
def test_a_part_that_is_none_is_refused(split):
    with pytest.raises(ValueError, match="must be a name such as train, or a part"):
        open_source("digits", split)


@pytest.mark.parametrize("name", ["", "../../etc", "mnist:9:9", "a b"])
def test_what_cannot_name_a_tfds_set_is_refused(name):
    with pytest.raises(ValueError, match="must be the name of a set, as tfds:cifar10"):
        open_source(f"tfds:{name}", "train")


def test_a_version_that_tfds_lacks_is_refused():
    with pytest.raises(ValueError, match="tfds:mnist:9.9.9 can't be opened"):
        open_source("tfds:mnist:9.9.9", "train")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_image(tmp_path):
    write_folder(tmp_path, {"train/a": 1})
    os.mkfifo(tmp_path / "train" / "a" / "pipe.png")
    assert len(open_source(str(tmp_path), "train")) == 1


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("images", bytes([0, 0, 8, 3, 0, 0]), "its header is cut off"),
        ("images", idx_bytes(np.zeros(2, np.uint8)), "it has 1 axes, not 3"),
        ("labels", idx_bytes(np.zeros((2, 2), np.uint8)), "it has 2 axes, not 1"),
    ],
)
def test_idx_files_of_another_shape_are_damaged(tmp_path, part, content, message):
    files = {
        "images": ("idx3", idx_bytes(np.zeros((2, 4, 4), np.uint8))),
        "labels": ("idx1", idx_bytes(np.zeros(2, np.uint8))),
    }
    for name, (kind, good) in files.items():
        data = content if name == part else good
        (tmp_path / f"train-{name}-{kind}-ubyte").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        open_source(str(tmp_path), "train")
