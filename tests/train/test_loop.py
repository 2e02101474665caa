"""The loop in one process, on the bundled digits."""

import dataclasses
import json
import os
import shutil
import signal
import threading
import time

import chex
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import vit_jax
from tests.train.digits import tiny_config
from tests.train.journals import rows
from vit_jax import config as configuration
from vit_jax.checkpoint import SaveFailed, complete_steps
from vit_jax.train import course, loop, losses, mixing
from vit_jax.train.course import Course
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.evaluations import Evaluations
from vit_jax.train.lock import LockLost
from vit_jax.train.loop import train_and_evaluate
from vit_jax.train.metrics import Metrics
from vit_jax.train.probe import probe
from vit_jax.train.saving import Saving
from vit_jax.train.steps import Steps, TrainingDiverged


def test_a_run_leaves_all_that_predict_needs_and_reports_its_end(tmp_path, capsys):
    result = train_and_evaluate(tiny_config(), tmp_path)
    assert (result.step, result.finished) == (6, True)
    assert result.evaluation["eval/examples"] == 360
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoints",
        "classes.txt",
        "config.json",
        "data.json",
        "metrics.jsonl",
        "preprocessing.json",
        "run.lock",
    ]
    assert complete_steps(tmp_path / "checkpoints") == [4, 6]
    stored = configuration.from_values(
        json.loads((tmp_path / "config.json").read_text())
    )
    assert stored.model.num_classes == 10
    said = capsys.readouterr().err
    assert "1,437 training images, 10 classes" in said
    assert "batch 16 (16 a process, 2 a device), peak learning rate 0.001" in said
    assert "6 steps on 1 process(es) with 8 device(s)" in said
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


def everything_in(folder):
    return {
        str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_finished_run_says_so_and_changes_no_file(tmp_path, capsys):
    train_and_evaluate(tiny_config(), tmp_path)
    before = everything_in(tmp_path)
    changed = tiny_config(seed=3, data__std=(0.25,), log__tensorboard=True)
    assert train_and_evaluate(changed, tmp_path).finished
    said = capsys.readouterr().err
    assert "this run is finished: step 6 of 6" in said
    assert "changed since the checkpoint: seed=3 (it was 0)" in said
    assert everything_in(tmp_path) == before


def test_another_optimizer_is_refused_and_changes_no_file(tmp_path):
    train_and_evaluate(tiny_config(), tmp_path)
    before = everything_in(tmp_path)
    config = tiny_config(optimizer__name="sgd", schedule__total_steps=9)
    with pytest.raises(ValueError, match="holds another optimizer state"):
        train_and_evaluate(config, tmp_path)
    assert everything_in(tmp_path) == before


def test_without_checkpoints_training_starts_anew_and_keeps_the_journal(
    tmp_path, capsys
):
    train_and_evaluate(tiny_config(), tmp_path)
    journal = (tmp_path / "metrics.jsonl").read_text()
    shutil.rmtree(tmp_path / "checkpoints")
    train_and_evaluate(tiny_config(), tmp_path)
    assert "training starts anew" in capsys.readouterr().err
    assert (tmp_path / "metrics.jsonl.before").read_text() == journal


@pytest.mark.slow
def test_noise_and_rate_may_change_between_calls(tmp_path, capsys):
    train_and_evaluate(tiny_config(), tmp_path)
    config = tiny_config(
        schedule__total_steps=8, model__dropout=0.1, data__train__batch_size=32
    )
    assert train_and_evaluate(config, tmp_path).step == 8
    said = capsys.readouterr().err
    assert "changed since the checkpoint: model.dropout=0.1" in said
    assert "another batch size: the run goes on at example number" in said


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


def test_a_diverged_run_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    config = tiny_config(
        schedule__base_learning_rate=1e30,
        optimizer__name="sgd",
        optimizer__clip_norm=0.0,
        schedule__decay="constant",
        schedule__warmup_steps=3,
        checkpoint__every_steps=1,
    )
    with pytest.raises(TrainingDiverged, match=r"at step 2.*checkpoints/1 is the new"):
        train_and_evaluate(config, tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == [1]
    assert all(np.isfinite(row["loss"]) for row in rows(tmp_path))


def test_a_loss_that_is_no_number_stops_the_run_at_its_step(tmp_path, monkeypatch):
    def lost(logits, targets):
        return jnp.nan * (logits * targets).sum(axis=-1)

    monkeypatch.setitem(losses.LOSSES, "softmax", lost)
    config = tiny_config(checkpoint__every_steps=0)
    with pytest.raises(
        TrainingDiverged, match=r"at step 1: .*loss nan.* no checkpoint"
    ):
        train_and_evaluate(config, tmp_path)
    assert rows(tmp_path) == []
    assert complete_steps(tmp_path / "checkpoints") == []


@pytest.mark.parametrize("part", ["train_batches", "eval_batches"])
def test_unreadable_data_saves_the_work_so_far(tmp_path, monkeypatch, part):
    assemble = loop.assemble

    def unreadable(batches, after):
        for number, batch in enumerate(batches):
            if number == after:
                raise OSError("photo.jpg is unreadable")
            yield batch

    def broken(config, **options):
        parts = assemble(config, **options)
        whole = getattr(parts.inputs, part)
        after = 3 if part == "train_batches" else 0
        replaced = dataclasses.replace(
            parts.inputs, **{part: lambda *step: unreadable(whole(*step), after)}
        )
        return dataclasses.replace(parts, inputs=replaced)

    monkeypatch.setattr(loop, "assemble", broken)
    config = tiny_config(checkpoint__every_steps=0, evals__every_steps=3)
    with pytest.raises(OSError, match=r"photo\.jpg is unreadable"):
        train_and_evaluate(config, tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == [3]


def test_weights_that_are_not_finite_are_never_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(course, "_norm", lambda params: np.float32("inf"))
    with pytest.raises(TrainingDiverged, match="at step 2: its update left weights"):
        train_and_evaluate(tiny_config(), tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"augment__label_smoothing": 0.1}, marks=pytest.mark.slow),
        pytest.param({"augment__mixup": 0.5}, marks=pytest.mark.slow),
        pytest.param({"augment__cutmix": 1.0}, marks=pytest.mark.slow),
        pytest.param({"augment__erasing": 1.0}, marks=pytest.mark.slow),
        {"augment__preset": "deit", "augment__crop": "resize"},
    ],
)
def test_every_augmentation_on_the_device_reaches_the_loss(tmp_path, change):
    settings = {
        "model__head_init_std": 1.0,
        "schedule__total_steps": 1,
        "augment__crop": "resize",
        "augment__flip": 0.0,
    }
    losses = []
    for number, values in enumerate((settings, settings | change)):
        folder = tmp_path / str(number)
        train_and_evaluate(tiny_config(**values), folder)
        losses.append(rows(folder)[0]["loss"])
    assert losses[0] != losses[1]


@pytest.mark.slow
def test_weights_split_over_fsdp_and_tensor_train_as_one(tmp_path):
    for name, mesh in (("plain", {}), ("split", {"fsdp": 2, "tensor": 2})):
        changes = {f"mesh__{axis}": size for axis, size in mesh.items()}
        train_and_evaluate(tiny_config(**changes), tmp_path / name)
    plain, split = (
        [row["loss"] for row in rows(tmp_path / name) if "loss" in row]
        for name in ("plain", "split")
    )
    np.testing.assert_allclose(split, plain, atol=1e-5)


def test_ctrl_c_saves_at_the_next_step(tmp_path, monkeypatch, capsys):
    write = Metrics.write

    def interrupt_at_three(self, row):
        write(self, row)
        if row["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Metrics, "write", interrupt_at_three)
    config = tiny_config(schedule__total_steps=50, checkpoint__every_steps=0)
    result = train_and_evaluate(config, tmp_path)
    assert (result.finished, result.stopped_by) == (False, signal.SIGINT)
    assert complete_steps(tmp_path / "checkpoints") == [result.step]
    assert f"interrupted: step {result.step} is saved" in capsys.readouterr().err


def without_speed(workdir):
    speed = ("images_per_second", "data_wait_share")
    return [
        {key: value for key, value in row.items() if key not in speed}
        for row in rows(workdir)
    ]


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (loop, "restore_newest"),
        (Steps, "_compile"),
        (Saving, "save"),
        (Evaluations, "run"),
    ],
)
def test_sigterm_at_any_moment_saves_and_the_run_goes_on_as_if_nothing_was(
    tmp_path, monkeypatch, capfd, owner, name
):
    settings = {
        "schedule__total_steps": 8,
        "checkpoint__every_steps": 4,
        "evals__every_steps": 4,
    }
    config = tiny_config(**settings)
    train_and_evaluate(config, tmp_path / "straight")
    original = getattr(owner, name)
    broken = tmp_path / "broken"
    if owner is loop:
        shutil.copytree(tmp_path / "straight", broken)
        shutil.rmtree(broken / "checkpoints" / "8")

    def signalled(*arguments, **keywords):
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, signalled)
        result = train_and_evaluate(config, broken)
    assert (result.finished, result.stopped_by) == (False, signal.SIGTERM)
    assert complete_steps(broken / "checkpoints")[-1] == result.step < 8
    assert f"terminated: step {result.step} is saved" in capfd.readouterr().err
    assert train_and_evaluate(config, broken).finished
    assert without_speed(broken) == without_speed(tmp_path / "straight")


def test_sigterm_before_the_first_step_saves_nothing(tmp_path, monkeypatch, capfd):
    fresh_state = loop.fresh_state

    def signalled(parts):
        os.kill(os.getpid(), signal.SIGTERM)
        return fresh_state(parts)

    monkeypatch.setattr(loop, "fresh_state", signalled)
    assert train_and_evaluate(tiny_config(), tmp_path).step == 0
    assert "terminated before the first step; nothing" in capfd.readouterr().err
    assert complete_steps(tmp_path / "checkpoints") == []


def test_saves_come_by_the_clock_too(tmp_path, monkeypatch):
    monkeypatch.setattr(Saving, "minutes_passed", lambda self: True)
    config = tiny_config(checkpoint__every_steps=0, checkpoint__keep=9)
    train_and_evaluate(config, tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == [1, 2, 3, 4, 5, 6]


def test_a_save_that_fails_in_the_background_ends_the_run_at_the_next_step(
    tmp_path, monkeypatch
):
    finalize = ocp.CheckpointManager._finalize_checkpoint

    def fails_at_four(self, step):
        if step == 4:
            raise OSError("the wire is cut")
        finalize(self, step)

    monkeypatch.setattr(ocp.CheckpointManager, "_finalize_checkpoint", fails_at_four)
    taken = []
    monkeypatch.setattr(Saving, "due", lambda self, step: step in (2, 4))
    heed = Course.heed

    def patient(self):
        taken.append(self.steps.step)
        while any(thread.name == "save_finalize" for thread in threading.enumerate()):
            time.sleep(0.01)
        return heed(self)

    monkeypatch.setattr(Course, "heed", patient)
    with pytest.raises(SaveFailed, match="of step 4 .* the wire is cut"):
        train_and_evaluate(tiny_config(schedule__total_steps=50), tmp_path)
    assert taken[-1] == 4


@pytest.mark.slow
def test_bfloat16_compute_trains_and_keeps_float32_weights(tmp_path):
    config = tiny_config(train__compute_dtype="bfloat16", log__tensorboard=True)
    assert train_and_evaluate(config, tmp_path).finished
    assert all(np.isfinite(row["loss"]) for row in rows(tmp_path) if "loss" in row)
    leaves = jax.tree.leaves(vit_jax.load(tmp_path).params)
    assert {leaf.dtype for leaf in leaves} == {np.dtype("float32")}
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert events.stat().st_size > 0


def test_steps_make_no_implicit_transfer(tmp_path, monkeypatch):
    advance = Steps.advance

    def guarded(self, batches):
        if self.step == 0:
            return advance(self, batches)
        with jax.transfer_guard("disallow"):
            return advance(self, batches)

    monkeypatch.setattr(Steps, "advance", guarded)
    assert train_and_evaluate(tiny_config(), tmp_path).finished


def test_the_step_is_traced_once(tmp_path, monkeypatch):
    prepare = chex.assert_max_traces(mixing.prepare, n=1)
    monkeypatch.setattr(mixing, "prepare", prepare)
    assert train_and_evaluate(tiny_config(), tmp_path).finished


def test_a_run_without_evaluation_only_trains_and_notices_other_data(tmp_path, capsys):
    config = tiny_config(data__eval__split="", schedule__total_steps=1)
    result = train_and_evaluate(config, tmp_path)
    assert (result.step, result.finished, result.evaluation) == (1, True, None)
    assert [row["step"] for row in rows(tmp_path)] == [1]
    with pytest.raises(ValueError, match=r"without evaluation .* split with --split"):
        evaluate_workdir(tmp_path)
    with pytest.raises(ValueError, match=r"without evaluation .* split with --split"):
        probe(tmp_path)
    capsys.readouterr()
    stored = json.loads((tmp_path / "data.json").read_text())
    assert stored["num_examples"] == 1437
    (tmp_path / "data.json").write_text('{"num_examples": 1400}')
    assert train_and_evaluate(config, tmp_path).finished
    said = capsys.readouterr().err
    assert "this run is finished: step 1 of 1" in said
    assert "the training data has 1,437 examples and had 1,400" in said
    config.checkpoint.best_metric = "eval/accuracy"
    with pytest.raises(
        ValueError, match=r"best_metric=eval/accuracy must be empty, or"
    ):
        train_and_evaluate(config, tmp_path)


def test_a_step_is_saved_before_the_first_evaluation_makes_it_compile(
    tmp_path, monkeypatch
):
    saved, run = [], Evaluations.run

    def noted(self, step, params, heed):
        saved.append((step, runs[0].saving.saved_step))
        return run(self, step, params, heed)

    runs, init = [], loop.Run.__init__

    def kept(self, *arguments):
        runs.append(self)
        init(self, *arguments)

    monkeypatch.setattr(loop.Run, "__init__", kept)
    monkeypatch.setattr(Evaluations, "run", noted)
    config = tiny_config(
        checkpoint__every_steps=0, evals__every_steps=1, schedule__total_steps=3
    )
    train_and_evaluate(config, tmp_path)
    assert saved == [(1, 1), (2, 1), (3, 3)]


def test_a_run_whose_lock_is_lost_ends_without_saving(tmp_path, monkeypatch):
    hold_for_all, advance = loop.hold_for_all, Steps.advance
    holds = []

    def kept(*arguments):
        holds.append(hold_for_all(*arguments))
        return holds[0]

    def loses(self, batches):
        advance(self, batches)
        holds[0].lost_to = '{"host": "elsewhere", "pid": 7, "since": "now", "time": 0}'

    monkeypatch.setattr(loop, "hold_for_all", kept)
    monkeypatch.setattr(Steps, "advance", loses)
    with pytest.raises(LockLost, match="process 7 on elsewhere"):
        train_and_evaluate(tiny_config(checkpoint__every_steps=0), tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == []
