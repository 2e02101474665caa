"""The loop in one process, on the bundled digits."""

import json
import os
import signal

import jax
import numpy as np
import pytest

from tests.train.digits import tiny_config
from vit_jax import config as configuration
from vit_jax.checkpoint import complete_steps
from vit_jax.train import loop
from vit_jax.train.loop import TrainingDiverged, train_and_evaluate


def rows(workdir):
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_run_leaves_all_that_predict_needs_and_reports_its_end(tmp_path, capsys):
    result = train_and_evaluate(tiny_config(), tmp_path)
    assert (result.step, result.finished) == (6, True)
    assert result.evaluation["eval/examples"] == 360
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoints",
        "classes.txt",
        "config.json",
        "metrics.jsonl",
        "preprocessing.json",
    ]
    assert complete_steps(tmp_path / "checkpoints") == [4, 6]
    stored = configuration.from_json((tmp_path / "config.json").read_text())
    assert stored.model.num_classes == 10
    said = capsys.readouterr().err
    assert "1,437 training images, 10 classes" in said
    assert "batch 16 (2 a device) on 8 cpu device(s)" in said
    assert "compiling the training step" in said
    train_rows = [row for row in rows(tmp_path) if "loss" in row]
    assert [row["step"] for row in train_rows] == [1, 2, 3, 4, 5, 6]
    assert set(train_rows[0]) == {
        "step",
        "loss",
        "learning_rate",
        "gradient_norm",
        "images_per_second",
        "data_wait_share",
    }
    np.testing.assert_allclose(train_rows[0]["loss"], np.log(10), rtol=1e-4)


def test_checkpoint_every_zero_saves_only_the_last_step(tmp_path):
    train_and_evaluate(tiny_config(checkpoint__every_steps=0), tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == [6]


def test_saves_come_every_so_many_steps_and_at_the_end(tmp_path):
    config = tiny_config(schedule__total_steps=5, checkpoint__keep=10)
    train_and_evaluate(config, tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == [2, 4, 5]


def test_more_steps_go_on_from_the_last_checkpoint(tmp_path, capsys):
    config = tiny_config(schedule__decay="constant")
    train_and_evaluate(config, tmp_path / "a")
    config.schedule.total_steps = 9
    train_and_evaluate(config, tmp_path / "a")
    assert "going on from the checkpoint of step 6" in capsys.readouterr().err
    train_and_evaluate(config, tmp_path / "b")
    losses = [
        [(row["step"], row["loss"]) for row in rows(tmp_path / run) if "loss" in row]
        for run in "ab"
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 9


def test_a_finished_run_says_so(tmp_path, capsys):
    train_and_evaluate(tiny_config(), tmp_path)
    before = rows(tmp_path)
    result = train_and_evaluate(tiny_config(), tmp_path)
    assert result.finished
    assert "this run is finished: step 6 of 6" in capsys.readouterr().err
    assert rows(tmp_path) == before


def test_an_evaluation_that_a_kill_cut_off_is_made_up(tmp_path):
    train_and_evaluate(tiny_config(), tmp_path)
    whole = rows(tmp_path)
    without = [row for row in whole if "eval/accuracy" not in row]
    text = "".join(json.dumps(row) + "\n" for row in without)
    (tmp_path / "metrics.jsonl").write_text(text)
    train_and_evaluate(tiny_config(), tmp_path)
    assert rows(tmp_path) == whole


def test_another_models_workdir_is_refused_with_the_keys(tmp_path):
    train_and_evaluate(tiny_config(), tmp_path)
    before = (tmp_path / "config.json").read_text()
    with pytest.raises(ValueError, match=r"model\.depth: 1 in the workdir, 2 asked"):
        train_and_evaluate(tiny_config(model__depth=2), tmp_path)
    assert (tmp_path / "config.json").read_text() == before


def test_other_classes_are_refused(tmp_path):
    train_and_evaluate(tiny_config(), tmp_path)
    (tmp_path / "classes.txt").write_text("".join(f"{name}\n" for name in "abcdefghij"))
    with pytest.raises(ValueError, match="was trained on the classes a, b, c, d, e, …"):
        train_and_evaluate(tiny_config(), tmp_path)


def test_a_damaged_checkpoint_is_named_and_nothing_is_lost(tmp_path):
    train_and_evaluate(tiny_config(), tmp_path)
    journal = (tmp_path / "metrics.jsonl").read_text()
    file = tmp_path / "checkpoints" / "6" / "params" / "manifest.ocdbt"
    file.write_bytes(file.read_bytes()[:10])
    config = tiny_config(schedule__total_steps=8)
    with pytest.raises(ValueError, match=r"checkpoints/6 is damaged"):
        train_and_evaluate(config, tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text() == journal
    assert complete_steps(tmp_path / "checkpoints") == [4, 6]


def test_a_diverged_run_stops_at_its_step_and_keeps_the_last_good_checkpoint(tmp_path):
    config = tiny_config(
        schedule__base_learning_rate=1e30,
        optimizer__name="sgd",
        optimizer__clip_norm=0.0,
        schedule__decay="constant",
        schedule__warmup_steps=3,
        schedule__total_steps=50,
        checkpoint__every_steps=1,
    )
    with pytest.raises(TrainingDiverged, match="last good checkpoint, step") as caught:
        train_and_evaluate(config, tmp_path)
    logged = [row["step"] for row in rows(tmp_path)]
    assert f"diverged at step {logged[-1] + 1}:" in str(caught.value)
    assert complete_steps(tmp_path / "checkpoints")[-1] == logged[-1]
    assert all(np.isfinite(row["loss"]) for row in rows(tmp_path))


def test_unreadable_data_saves_the_work_so_far(tmp_path, monkeypatch):
    assemble = loop.assemble

    def broken(config, faults):
        parts = assemble(config, faults=faults)
        whole = parts.inputs.train_batches

        def train_batches(step):
            for number, batch in enumerate(whole(step)):
                if number == 3:
                    raise ValueError("photo.jpg is unreadable")
                yield batch

        object.__setattr__(parts.inputs, "train_batches", train_batches)
        return parts

    monkeypatch.setattr(loop, "assemble", broken)
    with pytest.raises(ValueError, match=r"photo\.jpg is unreadable"):
        train_and_evaluate(tiny_config(checkpoint__every_steps=0), tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == [3]


def test_ctrl_c_saves_at_the_next_step(tmp_path, monkeypatch, capsys):
    record = loop.Run._record

    def interrupt_at_three(self, row):
        record(self, row)
        if row["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(loop.Run, "_record", interrupt_at_three)
    config = tiny_config(schedule__total_steps=50, checkpoint__every_steps=0)
    result = train_and_evaluate(config, tmp_path)
    assert not result.finished
    assert complete_steps(tmp_path / "checkpoints") == [result.step]
    assert f"interrupted: step {result.step} is saved" in capsys.readouterr().err


def test_steps_make_no_implicit_transfer(tmp_path, monkeypatch):
    step = loop.Run._step

    def guarded(self, number, state, batches):
        if number == self.start_step:
            return step(self, number, state, batches)
        with jax.transfer_guard("disallow"):
            return step(self, number, state, batches)

    monkeypatch.setattr(loop.Run, "_step", guarded)
    assert train_and_evaluate(tiny_config(), tmp_path).finished
