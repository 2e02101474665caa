"""The loop in one process, on the bundled digits."""

import dataclasses
import json
import os
import shutil
import signal

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.train.digits import tiny_config
from vit_jax import config as configuration
from vit_jax.checkpoint import complete_steps
from vit_jax.train import advice, assemble, loop, losses
from vit_jax.train.evaluate import evaluate_workdir
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
    stored = configuration.from_values(
        json.loads((tmp_path / "config.json").read_text())
    )
    assert stored.model.num_classes == 10
    said = capsys.readouterr().err
    assert "1,437 training images, 10 classes" in said
    assert "batch 16 (16 a process, 2 a device) on 1 process(es) with 8" in said
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

    def broken(config, faults):
        parts = assemble(config, faults=faults)
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
    monkeypatch.setattr(loop, "_norm", lambda params: np.float32("inf"))
    with pytest.raises(TrainingDiverged, match="at step 2: its update left weights"):
        train_and_evaluate(tiny_config(), tmp_path)
    assert complete_steps(tmp_path / "checkpoints") == []


@pytest.mark.parametrize(
    "change",
    [
        {"augment__label_smoothing": 0.1},
        {"augment__mixup": 0.5},
        {"augment__cutmix": 1.0},
        {"augment__erasing": 1.0},
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


def test_bfloat16_compute_trains_and_keeps_float32_weights(tmp_path):
    config = tiny_config(train__compute_dtype="bfloat16", log__tensorboard=True)
    assert train_and_evaluate(config, tmp_path).finished
    assert all(np.isfinite(row["loss"]) for row in rows(tmp_path) if "loss" in row)
    leaves = jax.tree.leaves(vit_jax.load(tmp_path).params)
    assert {leaf.dtype for leaf in leaves} == {np.dtype("float32")}
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert events.stat().st_size > 0


def test_steps_make_no_implicit_transfer(tmp_path, monkeypatch):
    advance = loop.Run._advance

    def guarded(self, batches):
        if self.step == self.start_step:
            return advance(self, batches)
        with jax.transfer_guard("disallow"):
            return advance(self, batches)

    monkeypatch.setattr(loop.Run, "_advance", guarded)
    assert train_and_evaluate(tiny_config(), tmp_path).finished


def test_the_step_is_traced_once(tmp_path, monkeypatch):
    prepare = chex.assert_max_traces(assemble.mixing.prepare, n=1)
    monkeypatch.setattr(assemble.mixing, "prepare", prepare)
    assert train_and_evaluate(tiny_config(), tmp_path).finished


def losing(monkeypatch, *steps):
    """Makes the gradient of so many steps nan."""
    prepare = assemble.mixing.prepare

    def spoilt(batch, key, **keywords):
        images, targets = prepare(batch, key, **keywords)
        first = batch["index"][0] // 16 + 1
        bad = jnp.isin(first, jnp.array(steps))
        return images, jnp.where(bad, jnp.nan, targets)

    monkeypatch.setattr(assemble.mixing, "prepare", spoilt)


def test_steps_without_a_number_are_passed_over_up_to_the_limit(
    tmp_path, monkeypatch, capsys
):
    losing(monkeypatch, 3, 5)
    config = tiny_config(train__max_nonfinite_steps=2, log__every_steps=2)
    assert train_and_evaluate(config, tmp_path).finished
    said = capsys.readouterr().err
    assert "step 3 is passed over, 1 of at most 2: loss nan, gradient_norm nan" in said
    assert "on examples 32 to 47 of the run (digits" in said
    found = {row["step"]: row for row in rows(tmp_path) if "loss" in row}
    assert [step for step, row in found.items() if row["loss"] is None] == [3, 5]
    assert found[3]["passed_over"] is found[5]["passed_over"] is True
    assert found[3]["gradient_norm"] is None
    assert found[6]["nonfinite_steps"] == 2
    assert "nonfinite_steps" not in found[2]
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()


def test_the_limit_holds_over_a_restart_and_names_the_last_checkpoint(
    tmp_path, monkeypatch
):
    losing(monkeypatch, 3, 5)
    config = tiny_config(
        train__max_nonfinite_steps=1,
        schedule__total_steps=4,
        schedule__decay="constant",
    )
    assert train_and_evaluate(config, tmp_path).finished
    config.schedule.total_steps = 6
    with pytest.raises(
        TrainingDiverged,
        match=r"at step 5: loss nan, .* on examples 64 to 79 of the run .*"
        r"checkpoints/4 is the newest",
    ):
        train_and_evaluate(config, tmp_path)


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


def test_accumulation_is_announced_and_changes_no_loss(tmp_path, capsys):
    losses = []
    for steps in (1, 2):
        config = tiny_config(train__accumulation_steps=steps, augment__mixup=0.5)
        train_and_evaluate(config, tmp_path / str(steps))
        found = rows(tmp_path / str(steps))
        losses.append([row["loss"] for row in found if "loss" in row])
    assert "2 a device, in 2 micro-batches of 1)" in capsys.readouterr().err
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_few_images_for_a_plain_vit_are_noted_once(tmp_path, capsys):
    train_and_evaluate(tiny_config(), tmp_path)
    said = capsys.readouterr().err
    assert said.count("note: 1,437 images are few for a ViT from scratch") == 1
    assert "model.stem=conv" in said
    train_and_evaluate(tiny_config(schedule__total_steps=7), tmp_path)
    assert "note:" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "change", [{"model__stem": "conv"}, {"augment__preset": "medium1"}]
)
def test_who_has_followed_the_advice_does_not_get_it(change):
    assert advice.learns_little(tiny_config(), 99_999)
    assert not advice.learns_little(tiny_config(), 100_000)
    assert not advice.learns_little(tiny_config(**change), 10)


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
