"""Tests vit_jax/cli/data.py."""

import argparse
import hashlib

import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import write_folder
from vit_jax.cli import data as command
from vit_jax.data import archives
from vit_jax.data.sources import open_source


def run(*arguments, overrides=None):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parsed = parser.parse_args([str(argument) for argument in arguments])
    return command.run(parsed, overrides or {})


def test_prepare_writes_a_set_that_training_reads(tmp_path, capsys):
    write_folder(tmp_path / "photos" / "train", {"a": 3, "b": 2})
    write_folder(tmp_path / "photos" / "val", {"b": 1})
    arguments = ("prepare", tmp_path / "photos", tmp_path / "out")
    assert run(*arguments, "--splits", "train", "val") == 0
    assert "train: 5 images written, 0 were there" in capsys.readouterr().out
    source = open_source(str(tmp_path / "out"), "val")
    np.testing.assert_array_equal(source.labels(), [1])
    run(*arguments, "--splits", "train", "val")
    assert "train: 0 images written, 5 were there" in capsys.readouterr().out


def test_prepare_lists_what_cannot_be_read(tmp_path, capsys):
    write_folder(tmp_path / "photos" / "train", {"a": 2})
    (tmp_path / "photos" / "train" / "a" / "001.png").write_bytes(b"")
    for _ in range(2):
        run("prepare", tmp_path / "photos", tmp_path / "out", "--splits", "train")
        text = capsys.readouterr().out
        assert "1 can't be read" in text and "unreadable: " in text
        assert "001.png" in text


def test_prepare_says_which_archives_to_put_where(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="put ILSVRC2012_img_train.tar, .* into"
    ):
        run("prepare", "imagenet2012", tmp_path / "out", "--archives", tmp_path / "a")


def test_prepare_fetches_what_may_be_downloaded(tmp_path, monkeypatch):
    fetched = []

    def open_split(folder, scratch, split):
        return open_source("digits", split)

    archive = archives.Archive("digits.tar", "0" * 32, "http://127.0.0.1:9/digits.tar")
    published = archives.Published((archive,), ("train", "test"), open_split)
    monkeypatch.setitem(archives.PUBLISHED, "tiny", published)
    with pytest.raises(FileNotFoundError, match="digits.tar can't be downloaded"):
        run("prepare", "tiny", tmp_path / "out")
    monkeypatch.setattr(
        "vit_jax.data.download.fetch", lambda *args, **kw: fetched.append(args[1])
    )
    run("prepare", "tiny", tmp_path / "out", "--splits", "test")
    assert fetched == [tmp_path / "out" / "digits.tar"]
    assert len(open_source(str(tmp_path / "out"), "test")) == 360


@pytest.fixture
def guarded(monkeypatch):
    """A published set with one archive that its publisher doesn't let us download."""
    opened = []

    def open_split(folder, scratch, split):
        scratch.mkdir(exist_ok=True)
        (scratch / "plain.tar").write_bytes(b"unpacked")
        opened.append(scratch)
        return open_source("digits", split)

    md5 = hashlib.md5(b"content").hexdigest()
    published = archives.Published(
        (archives.Archive("a.tar", md5),), ("test",), open_split
    )
    monkeypatch.setitem(archives.PUBLISHED, "guarded", published)
    return opened


def test_archives_that_one_must_fetch_are_checked_too(tmp_path, guarded):
    (tmp_path / "a").mkdir()
    archive = tmp_path / "a" / "a.tar"
    archive.write_bytes(b"kontent")
    arguments = ("prepare", "guarded", tmp_path / "out", "--archives", tmp_path / "a")
    with pytest.raises(ValueError, match="a.tar is damaged: its MD5 is .*get it anew"):
        run(*arguments)
    assert not guarded
    archive.write_bytes(b"content")
    run(*arguments)
    assert len(open_source(str(tmp_path / "out"), "test")) == 360


def test_what_was_unpacked_does_not_stay(tmp_path, guarded):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.tar").write_bytes(b"content")
    run("prepare", "guarded", out)
    assert guarded and not guarded[0].exists()
    assert sorted(path.name for path in out.iterdir()) == [
        "a.tar",
        "a.tar.verified",
        "dataset.json",
        "test-00000-of-00001.array_record",
        "test.labels.npy",
        "test.source",
    ]


def test_archives_must_lie_on_a_local_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="FOLDER=gs://bucket/x: archives are read whe"):
        run("prepare", "cifar10", "gs://bucket/x")
    with pytest.raises(ValueError, match="--archives=gs://bucket/a: archives are read"):
        run("prepare", "cifar10", tmp_path, "--archives", "gs://bucket/a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--shard_size", "0"), "--shard_size=0 must be 1 or more"),
        (("--shorter_side", "-1"), "--shorter_side=-1 must be 0 or more"),
        (("--workers", "-1"), "--workers=-1 must be 0 or more"),
    ],
)
def test_prepare_refuses_senseless_flags(tmp_path, flags, message):
    with pytest.raises(ValueError, match=message):
        run("prepare", "digits", tmp_path, *flags)


def test_prepare_refuses_unknown_splits_and_config_keys(tmp_path):
    with pytest.raises(ValueError, match="--splits: cifar10 has train, test, not val"):
        run("prepare", "cifar10", tmp_path, "--splits", "val")
    with pytest.raises(ValueError, match="takes no --config keys"):
        run("prepare", "digits", tmp_path, overrides={"seed": "1"})


@pytest.mark.parametrize(
    ("keys", "rows"),
    [({"augment.label_smoothing": "0"}, 3), ({"augment.mixup": "0.8"}, 4)],
)
def test_show_draws_every_stage(tmp_path, capsys, keys, rows):
    sheet = tmp_path / "sheet.png"
    flags = ("--config", "digits", "--output", sheet, "--images", "8")
    assert run("show", *flags, overrides=keys) == 0
    assert str(sheet) in capsys.readouterr().out
    with Image.open(sheet) as image:
        lines = 2 if rows == 4 else 1
        assert image.height == rows * (144 + 14 + 14 * lines + 6) + 6
        pixels = np.asarray(image)
    # Each row has its images: black digits' grounds on the white sheet.
    assert (pixels < 10).all(axis=-1).mean() > 0.2


def test_show_reports_all_faults(tmp_path):
    overrides = {"augment.mixpu": "1", "data.train.batch_size": "0"}
    with pytest.raises(ValueError) as caught:
        run("show", "--config", "digits", overrides=overrides)
    assert "augment.mixup" in str(caught.value)
    assert "data.train.batch_size=0 must be" in str(caught.value)
    with pytest.raises(ValueError, match="--images=0 must be 1 or more"):
        run("show", "--config", "digits", "--images", "0")


def test_prepare_refuses_parts_as_splits_and_its_own_source(tmp_path):
    with pytest.raises(ValueError, match="must be the name of a split; parts are cut"):
        run("prepare", "digits", tmp_path / "a", "--splits", "train[:50%]")
    with pytest.raises(ValueError, match="is the source; name another folder"):
        run("prepare", tmp_path, tmp_path)


def test_show_refuses_a_file_that_is_no_picture_before_it_works():
    with pytest.raises(ValueError, match=r"--output=x\.foo must end in \.png or"):
        run("show", "--config", "nonsense", "--output", "x.foo")
