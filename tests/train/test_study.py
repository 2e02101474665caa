"""Runs at several sizes of the training set."""

import builtins
import csv

import numpy as np
import pytest

from tests.train.digits import tiny_config
from vit_jax.__main__ import main
from vit_jax.train import study
from vit_jax.train.loop import Result
from vit_jax.train.study import study_data_size, summarize, write_curve, write_tables

RECIPE = """
from vit_jax.config import default_config
def get_config():
    config = default_config()
    config.update_from_flattened_dict({values})
    return config
"""


def rows_of(*accuracies, fraction=1.0):
    return [
        {
            "fraction": fraction,
            "images": int(100 * fraction),
            "seed": seed,
            "accuracy": value,
            "loss": 1.0,
        }
        for seed, value in enumerate(accuracies)
    ]


@pytest.mark.slow
def test_the_command_trains_writes_tables_and_curve_and_goes_on(
    tmp_path, capsys, monkeypatch
):
    flat = tiny_config(schedule__total_steps=1).to_dict()
    values = {
        f"{group}.{key}": value
        for group in ("model", "schedule", "log", "checkpoint")
        for key, value in flat[group].items()
        if value is not None
    }
    values |= {"data.source": "digits", "data.train.batch_size": 16}
    recipe = tmp_path / "recipe.py"
    recipe.write_text(RECIPE.format(values=values))
    flags = [f"--config={recipe}", f"--workdir={tmp_path / 'study'}"]
    flags += ["--fractions=0.1,1", "--seeds=2"]
    assert main(["study", "data_size", *flags]) == 0
    folder = tmp_path / "study"
    rows = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    assert [(row["fraction"], row["images"], row["seed"]) for row in rows] == [
        ("0.1", "144", "0"),
        ("0.1", "144", "1"),
        ("1.0", "1437", "0"),
        ("1.0", "1437", "1"),
    ]
    assert (folder / "table.md").read_text() in capsys.readouterr().out
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    table = (folder / "table.csv").read_text()
    assert main(["study", "data_size", *flags]) == 0
    assert capsys.readouterr().err.count("this run is finished") == 4
    assert (folder / "table.csv").read_text() == table


def test_a_stopped_run_stops_the_study(tmp_path, monkeypatch):
    results = iter([Result(1, True, {"eval/accuracy": 0.5, "eval/loss": 1.0})])
    stopped = Result(1, False, None, stopped_by=15)
    monkeypatch.setattr(
        study, "train_and_evaluate", lambda *_, **__: next(results, stopped)
    )
    (tmp_path / "study").mkdir()
    found = study_data_size(
        tiny_config(), tmp_path / "study", fractions=(0.5, 1.0), seeds=1
    )
    assert (len(found.rows), found.stopped_by) == (1, 15)
    assert "0.5" in (tmp_path / "study" / "table.csv").read_text()


def test_a_study_without_a_set_to_judge_by_is_refused(tmp_path):
    config = tiny_config(data__eval__split="")
    with pytest.raises(ValueError, match=r"data\.eval\.split is empty; a study needs"):
        study_data_size(config, tmp_path, fractions=(1.0,), seeds=1)


def test_the_table_has_mean_and_deviation_of_the_runs(tmp_path):
    rows = rows_of(0.5, 0.7) + rows_of(0.2, fraction=0.1)
    small, whole = summarize(rows)
    assert (small["images"], small["runs"], small["deviation"]) == (10, 1, 0.0)
    np.testing.assert_allclose(whole["accuracy"], 0.6)
    np.testing.assert_allclose(whole["deviation"], 0.2 / np.sqrt(2))
    write_tables(tmp_path, rows)
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [
        "| 0.1 | 10 | 1 | 20.00% ± 0.00% |",
        "| 1 | 100 | 2 | 60.00% ± 14.14% |",
    ]


def test_without_matplotlib_the_tables_are_there_and_the_error_says_how(
    tmp_path, monkeypatch
):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"pip install 'vit_jax\[plots\]'"):
        write_curve(tmp_path / "curve.png", rows_of(0.5))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--fractions=0,1"], "must be above 0 and at most 1"),
        (["--fractions=a"], "--fractions=a must be numbers"),
        (["--seeds=0"], "seeds=0 must be 1 or more"),
    ],
)
def test_numbers_that_can_not_be_are_refused(tmp_path, capsys, flags, message):
    command = ["study", "data_size", "--config=digits", f"--workdir={tmp_path}/w"]
    assert main([*command, *flags]) == 2
    assert message in capsys.readouterr().err
