"""A run's folder."""

import errno
import os

import pytest
from etils.epath import backend

from vit_jax.workdir import DiskFull, Workdir, disk_errors, read_json


def test_create_makes_the_folder_and_leaves_nothing_else(tmp_path):
    workdir = Workdir(tmp_path / "a" / "b")
    workdir.create()
    assert list(workdir.path.iterdir()) == []


def test_a_workdir_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="can't be written"):
        Workdir(tmp_path / "file" / "run").create()


def test_relative_and_home_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert os.fspath(Workdir("run").path) == os.fspath(tmp_path / "run")
    assert os.fspath(Workdir("~/run").path) == os.fspath(tmp_path / "run")


def test_require_names_what_is_missing(tmp_path):
    workdir = Workdir(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"config\.json, classes\.txt, preprocessing\.json"
    ):
        workdir.require()
    workdir.write_config("{}")
    workdir.write_classes(("a",))
    workdir.write_preprocessing({})
    workdir.require()


def test_classes_and_preprocessing_round_trip(tmp_path):
    workdir = Workdir(tmp_path)
    workdir.write_classes(("cat", "dog with space", "überhund"))
    workdir.write_preprocessing({"image_size": [8, 8]})
    assert workdir.read_classes() == ("cat", "dog with space", "überhund")
    assert workdir.read_preprocessing() == {"image_size": [8, 8]}
    assert sorted(os.listdir(tmp_path)) == ["classes.txt", "preprocessing.json"]


def test_a_damaged_json_file_is_named(tmp_path):
    workdir = Workdir(tmp_path)
    workdir.config.write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        read_json(workdir.config)


def test_damaged_class_names_are_named(tmp_path):
    workdir = Workdir(tmp_path)
    workdir.classes.write_bytes(b"\xff\xfe0\n")
    with pytest.raises(ValueError, match=r"classes\.txt is damaged"):
        workdir.read_classes()


def test_an_empty_path_is_refused():
    with pytest.raises(ValueError, match="the workdir is empty"):
        Workdir("")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "anything"),
        OSError(errno.EDQUOT, "anything"),
        ValueError("RESOURCE_EXHAUSTED: write: No space left on device [ENOSPC]"),
    ],
)
def test_a_full_disk_is_said_with_the_file_and_what_to_do(tmp_path, error):
    with (
        pytest.raises(DiskFull, match=r"the disk is full: .*figures.*Make room"),
        disk_errors(tmp_path / "figures"),
    ):
        raise error


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "no"), ValueError("other")])
def test_other_errors_stay_what_they_are(tmp_path, error):
    with pytest.raises(type(error)) as raised, disk_errors(tmp_path):
        raise error
    assert raised.value is error


def test_files_are_whole_in_a_store_too(object_store):
    workdir = Workdir(object_store)
    workdir.create()
    workdir.write_config("{}")
    workdir.write_classes(("cat", "dog"))
    workdir.write_preprocessing({"image_size": [8, 8]})
    workdir.require()
    assert workdir.read_classes() == ("cat", "dog")
    assert workdir.read_preprocessing() == {"image_size": [8, 8]}
    names = sorted(file.name for file in object_store.iterdir())
    assert names == ["classes.txt", "config.json", "preprocessing.json"]


def test_a_store_whose_package_is_missing_is_said_with_the_extra(monkeypatch):
    def missing(self, name):
        raise ImportError("Please install gcsfs to access Google Storage")

    monkeypatch.setattr(type(backend.fsspec_backend), "_get_filesystem", missing)
    with pytest.raises(ValueError, match=r"gs://b/run .*gcsfs.*vit_jax\[gcs\]"):
        Workdir("gs://b/run").create()


def test_small_files_are_on_disk_before_they_have_their_name(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync

    def noted(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    workdir = Workdir(tmp_path)
    workdir.write_data({"num_examples": 5})
    fresh, folder = synced
    assert fresh.startswith(f"{workdir.data}.")
    assert folder == str(tmp_path)
    assert workdir.read_data() == {"num_examples": 5}
    assert os.listdir(tmp_path) == ["data.json"]


def test_a_run_that_stored_nothing_of_its_data_has_no_figures(tmp_path):
    assert Workdir(tmp_path).read_data() == {}
