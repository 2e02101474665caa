"""Linear evaluation of a workdir's features."""

import json

import jax
import numpy as np
import pytest

from tests.train.digits import tiny_config
from vit_jax.__main__ import main
from vit_jax.train.loop import train_and_evaluate
from vit_jax.train.probe import probe


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train_and_evaluate(tiny_config(schedule__total_steps=1), folder)
    return folder


def test_more_examples_are_better_and_all_layers_can_be_asked(workdir):
    rows = probe(workdir, layers=["all"], shots=(1, 0), l2=(1.0, 1024.0), seeds=2)
    assert [(row["layer"], row["shots"]) for row in rows] == [
        ("0", 1),
        ("0", "all"),
        ("pooled", 1),
        ("pooled", "all"),
    ]
    # Features of random weights tell digits apart far better than chance.
    assert rows[3]["accuracy"] > 0.5
    assert rows[3]["accuracy"] > rows[2]["accuracy"]
    assert rows[3]["deviation"] == 0.0
    assert {row["l2"] for row in rows[2:]} <= {1.0, 1024.0}


def test_more_shots_than_a_class_has_are_all_of_them(workdir):
    assert [row["shots"] for row in probe(workdir, shots=(1000,), seeds=1)] == ["all"]


def test_the_command_prints_a_table_or_json(workdir, capsys):
    flags = [f"--workdir={workdir}", "--shots=2,all", "--seeds=1"]
    assert main(["probe", *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["layer", "shots", "l2", "accuracy"]
    assert [line.split()[1] for line in lines[1:]] == ["2", "all"]
    assert main(["probe", *flags, "--json", "--split=test[:50%]"]) == 0
    assert [row["shots"] for row in json.loads(capsys.readouterr().out)] == [2, "all"]


def test_figures_are_those_of_other_batch_sizes(workdir):
    found = [probe(workdir, shots=(5,), seeds=1, batch_size=size) for size in (64, 500)]
    np.testing.assert_allclose(found[0][0]["accuracy"], found[1][0]["accuracy"])


def test_figures_are_those_of_one_device(workdir):
    found = [
        probe(workdir, shots=(5, 0), seeds=1, batch_size=50, devices=devices)
        for devices in (jax.local_devices()[:1], None)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--layers=1"], "layers=1 must be all, or among 0, pooled"),
        (["--shots=a"], "--shots=a must be numbers"),
        (["--l2=-1"], "l2=(-1.0,)"),
        (["--batch_size=0"], "--batch_size=0 must be 1 or more"),
        (["--config.seed=1"], "probe takes no --config keys"),
    ],
)
def test_flags_that_can_not_be_are_refused(workdir, capsys, flags, message):
    assert main(["probe", f"--workdir={workdir}", *flags]) == 2
    assert message.replace("(", "").split(",")[0] in capsys.readouterr().err.replace(
        "[", ""
    ).replace("(", "")
