"""The best weights so far."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.train.digits import tiny_config
from vit_jax.checkpoint import complete_steps
from vit_jax.train.best import Best
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.faults import best_faults
from vit_jax.train.loop import train_and_evaluate
from vit_jax.workdir import Workdir


def best_of(folder, rows=(), *, step=0, metric="eval/accuracy", mode=None):
    policy = tiny_config(
        checkpoint__best_metric=metric, checkpoint__best_mode=mode
    ).checkpoint
    return Best(policy, Workdir(folder), rows=rows, step=step, leads=True)


def row(step, value, name="eval/accuracy"):
    return {"step": step, name: value}


def params(value):
    return {"kernel": jnp.full((2, 2), float(value))}


def test_only_a_better_figure_is_kept_and_the_former_goes(tmp_path):
    best = best_of(tmp_path)
    kept = [
        best.keep(row(step, value), params(step))
        for step, value in ((1, 0.5), (2, 0.4), (3, 0.5), (4, 0.6))
    ]
    assert kept == [True, False, False, True]
    assert complete_steps(tmp_path / "best") == [4]
    figures = Workdir(tmp_path).read_best()
    assert figures == row(4, 0.6) | {"metric": "eval/accuracy"}


def test_losses_are_best_when_small_and_no_number_never_is(tmp_path):
    best = best_of(tmp_path, metric="eval/loss")
    values = (float("nan"), 2.0, 3.0, 1.0)
    kept = [best.keep(row(k, v, "eval/loss"), params(k)) for k, v in enumerate(values)]
    assert kept == [False, True, False, True]
    assert best.sentence(row(3, 1.0, "eval/loss")).endswith("eval/loss 1")


def test_off_keeps_nothing(tmp_path):
    best = best_of(tmp_path, metric="")
    assert not best.keep(row(1, 0.5), params(1))
    assert not best.lacks(row(1, 0.5))
    assert not (tmp_path / "best").exists()


def test_a_restart_forgets_what_came_after_its_checkpoint(tmp_path):
    rows = [row(1, 0.5), row(2, 0.7), row(3, 0.9)]
    first = best_of(tmp_path)
    for each in rows:
        first.keep(each, params(each["step"]))
    again = best_of(tmp_path, rows, step=2)
    # The weights of step 2 went when those of step 3 came.
    assert not again.note
    assert again.keep(row(3, 0.6), params(30))
    assert not again.keep(row(4, 0.5), params(4))
    assert complete_steps(tmp_path / "best") == [3]


def test_a_figure_without_weights_is_named_and_in_nobodys_way(tmp_path):
    rows = [row(1, 0.9), row(2, 0.5)]
    best = best_of(tmp_path, rows, step=2)
    assert best.note.startswith("the best eval/accuracy so far, 0.9 of step 1, has no")
    assert best.lacks(row(2, 0.5))
    assert best.keep(row(3, 0.6), params(3))
    rows.append(row(3, 0.6))
    again = best_of(tmp_path, rows[1:], step=3)
    assert not again.note
    assert not again.keep(row(4, 0.55), params(4))


def test_a_row_of_before_the_metric_was_switched_on_is_never_the_best(tmp_path):
    best = best_of(tmp_path, [row(1, 0.9)], step=1, metric="eval/few/accuracy")
    assert not best.lacks(row(1, 0.9))
    assert best.keep(row(2, 0.1, "eval/few/accuracy"), params(2))


@pytest.mark.parametrize(
    ("metric", "mode", "faults"),
    [
        ("eval/loss", None, 0),
        ("eval/loss", "min", 0),
        ("eval/loss", "max", 1),
        ("eval/few/top5_accuracy", "max", 0),
        ("eval/few/top5_accuracy", "min", 1),
    ],
)
def test_a_mode_that_keeps_the_worst_is_a_fault(metric, mode, faults):
    config = judged_config()
    config.checkpoint.best_metric, config.checkpoint.best_mode = metric, mode
    found = best_faults(config)
    assert len(found) == faults
    assert all(fault.startswith(f"checkpoint.best_mode={mode}") for fault in found)


def test_an_evaluation_whose_weights_a_kill_lost_is_noticed(tmp_path):
    best = best_of(tmp_path, [row(1, 0.5)], step=1)
    assert best.lacks(row(1, 0.5))
    best.keep(row(1, 0.5), params(1))
    assert not best.lacks(row(1, 0.5))
    assert not best.lacks(None)
    # A kill between the weights and their figures leaves those of before.
    Workdir(tmp_path).write_best(row(0, 0.4))
    assert best.lacks(row(1, 0.5))
    best.keep(row(1, 0.5), params(1))
    assert Workdir(tmp_path).read_best()["step"] == 1


def judged_config():
    return tiny_config(
        evals__every_steps=1,
        evals__per_class=True,
        evals__sets=(("few", "digits", "train[:5%]"),),
        checkpoint__best_metric="eval/few/loss",
        schedule__base_learning_rate=1e-3,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    config = judged_config()
    train_and_evaluate(config, folder)
    return folder


def test_a_run_keeps_its_best_with_the_figures_that_evaluate_gives(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "eval/loss" in row]
    wanted = min(rows, key=lambda row: row["eval/few/loss"])
    figures = Workdir(run).read_best()
    assert figures["step"] == wanted["step"]
    assert vit_jax.load(run, "best").step == wanted["step"]
    found = evaluate_workdir(run, checkpoint="best", per_class=True)
    np.testing.assert_allclose(found["loss"], wanted["eval/loss"], rtol=1e-5)
    few = found["sets"]["few"]
    np.testing.assert_allclose(few["loss"], wanted["eval/few/loss"], rtol=1e-5)
    assert few["examples"] == 72
    # Each step is better than the one before: the best evaluation is the newest.
    stored = json.loads((run / "evaluation.json").read_text())
    assert stored["step"] == wanted["step"]
    for prefix, figures in (("eval", found), ("eval/few", few)):
        details = stored["sets"][prefix]
        assert details["per_class"] == figures["per_class"]
        assert np.sum(details["counts"]) == figures["examples"]
        name = f"{prefix}/mean_class_accuracy"
        assert wanted[name] == figures["mean_class_accuracy"]


def test_the_last_save_of_the_best_is_made_up_at_the_next_start(run, tmp_path):
    import shutil

    copied = tmp_path / "copied"
    shutil.copytree(run, copied)
    last = json.loads((copied / "metrics.jsonl").read_text().splitlines()[-1])
    # A rate that small makes every step better than the one before.
    assert Workdir(copied).read_best()["step"] == last["step"] == 6
    shutil.rmtree(copied / "best")
    config = judged_config()
    train_and_evaluate(config, copied)
    assert complete_steps(copied / "best") == [last["step"]]
    ours, theirs = (vit_jax.load(folder, "best").params for folder in (run, copied))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)
