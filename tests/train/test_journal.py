"""Rows of the journal: kept, cut, mended."""

import json

import pytest
from etils import epath

from vit_jax.train.journal import Journal


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
