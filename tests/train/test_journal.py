"""Rows of the journal: kept, cut, mended."""

import json

import pytest
from etils import epath

from vit_jax.train.journal import Journal
from vit_jax.workdir import DiskFull


def steps(file):
    return [json.loads(line)["step"] for line in file.read_text().splitlines()]


def test_cut_forgets_later_rows_and_a_half_line(tmp_path):
    file = epath.Path(tmp_path / "metrics.jsonl")
    file.write_text('{"step": 1}\n{"step": 2}\n{"step": 3, "eval/accuracy": 1}\n{"st')
    journal = Journal(file)
    journal.cut(2)
    assert steps(file) == [1, 2]
    assert journal.last("eval/accuracy") is None
    journal.write({"step": 3, "loss": 0.1})
    assert steps(file) == [1, 2, 3]


def test_floats_survive_the_journal_bit_for_bit(tmp_path):
    file = epath.Path(tmp_path / "metrics.jsonl")
    value = 0.1 + 0.2
    Journal(file).write({"step": 1, "loss": value})
    assert Journal(file).last("loss") == {"step": 1, "loss": value}


@pytest.mark.parametrize("line", ["{", "5", '{"loss": 1}'])
def test_a_damaged_line_inside_is_named_and_nothing_is_lost(tmp_path, line):
    file = epath.Path(tmp_path / "metrics.jsonl")
    text = f'{{"step": 1}}\n{line}\n{{"step": 3}}\n'
    file.write_text(text)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged in line 2"):
        Journal(file)
    assert file.read_text() == text


def test_a_full_disk_is_said_in_plain_words(tmp_path):
    file = tmp_path / "metrics.jsonl"
    journal = Journal(epath.Path(file))
    file.symlink_to("/dev/full")
    with pytest.raises(DiskFull, match=r"the disk is full: .*metrics\.jsonl"):
        journal.write({"step": 1})


def test_in_a_store_rows_wait_for_a_flush_or_half_a_minute(object_store, monkeypatch):
    file = object_store / "metrics.jsonl"
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    journal = Journal(file)
    journal.write({"step": 1})
    assert not file.exists()
    assert journal.last("step") == {"step": 1}
    journal.flush()
    assert steps(file) == [1]
    journal.write({"step": 2})
    assert steps(file) == [1]
    now[0] = 31.0
    journal.write({"step": 3})
    assert steps(file) == [1, 2, 3]
    assert not Journal(file).cut(3)
    assert Journal(file).cut(2)
    assert steps(file) == [1, 2]
    assert steps(object_store / "metrics.jsonl.before") == [1, 2, 3]


def test_a_flush_puts_the_rows_on_disk_once(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("vit_jax.train.journal.sync", synced.append)
    journal = Journal(epath.Path(tmp_path / "metrics.jsonl"))
    journal.flush()
    assert synced == []
    journal.write({"step": 1})
    journal.flush()
    journal.flush()
    assert synced == [tmp_path / "metrics.jsonl"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": "5"}',
        b'{"step": Infinity}',
        b'{"step": 5, "eval/accuracy": "0.5"}',
        b'{"step": 5, "loss": "low"}',
        b'{"step": 5, "note": "\xff"}',
        b"[5]",
    ],
)
def test_a_row_that_no_run_writes_is_named_with_its_line(tmp_path, line):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1, "loss": NaN}\n' + line + b"\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged in line 2"):
        Journal(epath.Path(file))
