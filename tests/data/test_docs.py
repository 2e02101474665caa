"""Runs the examples of docs/data.md."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.test_data import run
from tests.data.pictures import write_folder
from tests.data.test_sources import write_idx
from vit_jax.cli.overrides import take_overrides
from vit_jax.data.presets import PRESETS
from vit_jax.data.sources import open_source

DOCUMENT = (Path(__file__).parents[2] / "docs" / "data.md").read_text()


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_photos):
    """A folder with all that the document's examples name; the tests run in it."""
    for split in ("train", "test"):
        write_folder(tmp_path / "photos" / split, {"cat": 3, "dog": 2})
    write_folder(tmp_path / "tree", {"cat": 10, "dog": 5})
    lists = write_folder(tmp_path / "lists" / "images", {"cat": 1, "dog": 1}).parent
    rows = "path,label\nimages/cat/000.png,cat\nimages/dog/000.png,dog\n"
    (lists / "everything.csv").write_text(rows)
    (lists / "test.csv").write_text(rows)
    line = '{"path": "images/dog/000.png", "label": "dog", "split": "train"}\n'
    (lists / "splits.jsonl").write_text(line)
    write_idx(tmp_path / "idx", 6, "train")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_runs(folder):
    names = {}
    ran = []
    for kind, text in re.findall(r"```(bash|python)\n(.*?)```", DOCUMENT, re.DOTALL):
        if kind == "python":
            exec(text, names)
            ran.append(len(names.get("test", names["train"])))
        else:
            overrides, arguments = take_overrides(shlex.split(text))
            assert arguments[:2] == ["vit_jax", "data"]
            assert run(*arguments[2:], overrides=overrides) == 0
            ran.append(text.split()[2])
    assert len(ran) == 9
    with Image.open("sheet.png") as sheet:
        assert np.asarray(sheet).std() > 30
    assert len(open_source("prepared", "test")) == 5


def test_presets_and_published_sets_are_all_listed():
    from vit_jax.data.archives import PUBLISHED

    for name in (*PRESETS, *PUBLISHED):
        assert re.search(rf"\b{name}\b", DOCUMENT), name
