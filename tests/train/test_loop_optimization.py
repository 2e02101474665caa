"""Averages, accumulation and frozen weights in whole runs and over restarts."""

import chex
import jax
import numpy as np
import pytest

import vit_jax
from tests.train.digits import tiny_config
from tests.train.journals import rows
from vit_jax.train import assemble
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.loop import train_and_evaluate


def test_the_average_is_evaluated_saved_and_used_to_predict(tmp_path):
    config = tiny_config(train__ema_decay=0.9, schedule__base_learning_rate=0.1)
    evaluation = train_and_evaluate(config, tmp_path).evaluation
    average, weights = vit_jax.load(tmp_path), vit_jax.load(tmp_path, ema=False)
    differ = jax.tree.map(
        lambda one, other: not np.array_equal(one, other),
        average.params,
        weights.params,
    )
    assert any(jax.tree.leaves(differ))
    figures = evaluate_workdir(tmp_path)
    np.testing.assert_allclose(figures["loss"], evaluation["eval/loss"], rtol=1e-5)


@pytest.mark.slow
def test_the_average_goes_on_after_a_restart_and_may_start_late(tmp_path, capsys):
    values = {"train__ema_decay": 0.9, "schedule__decay": "constant"}
    for name, stops in (("straight", [6]), ("stopped", [3, 6])):
        for total in stops:
            config = tiny_config(schedule__total_steps=total, **values)
            train_and_evaluate(config, tmp_path / name)
    straight, stopped = (
        vit_jax.load(tmp_path / name).params for name in ("straight", "stopped")
    )
    chex.assert_trees_all_equal(straight, stopped)
    late = tiny_config(schedule__total_steps=3, schedule__decay="constant")
    train_and_evaluate(late, tmp_path / "late")
    late.schedule.total_steps, late.train.ema_decay = 6, 0.9
    capsys.readouterr()
    train_and_evaluate(late, tmp_path / "late")
    assert "has no moving average: it starts at the weights" in capsys.readouterr().err
    late.schedule.total_steps, late.train.ema_decay = 8, 0.0
    assert train_and_evaluate(late, tmp_path / "late").finished
    assert vit_jax.load(tmp_path / "late").step == 8


@pytest.mark.slow
def test_accumulation_is_announced_and_changes_no_loss(tmp_path, capsys):
    losses = []
    for steps in (1, 2):
        config = tiny_config(train__accumulation_steps=steps, augment__mixup=0.5)
        train_and_evaluate(config, tmp_path / str(steps))
        found = rows(tmp_path / str(steps))
        losses.append([row["loss"] for row in found if "loss" in row])
    assert "2 a device, in 2 micro-batches of 1)" in capsys.readouterr().err
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.mark.slow
def test_a_run_with_frozen_weights_and_half_moments_goes_on(tmp_path):
    changes = {
        "train__freeze": ("stem/.*", "encoder/.*"),
        "optimizer__moment_dtype": "bfloat16",
        "schedule__decay": "constant",
    }
    for total in (2, 6):
        config = tiny_config(schedule__total_steps=total, **changes)
        train_and_evaluate(config, tmp_path / "stopped")
    train_and_evaluate(tiny_config(**changes), tmp_path / "straight")
    stopped, straight = (
        vit_jax.load(tmp_path / name).params for name in ("stopped", "straight")
    )
    chex.assert_trees_all_equal(stopped, straight)
    parts = assemble.assemble(tiny_config())
    fresh = parts.init(jax.random.key(0))
    for frozen in ("stem", "encoder"):
        chex.assert_trees_all_equal(stopped[frozen], jax.device_get(fresh[frozen]))
    assert not np.array_equal(stopped["head"]["kernel"], fresh["head"]["kernel"])
