"""Stages of a run: sizes, batches, positions, and the state carried over."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vit_jax
from tests.train.digits import tiny_config
from tests.train.journals import losses
from vit_jax.checkpoint import stored_shapes
from vit_jax.layers.resample import resize_grid
from vit_jax.models.variants import resolve
from vit_jax.train.assemble import assemble
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.loop import train_and_evaluate
from vit_jax.train.stages import (
    mean_batch_size,
    plan_stages,
    resize_state,
    scale_by_stage,
    stage_after,
    stage_before,
)
from vit_jax.train.steps import Steps

STAGES = ((8, 0.5, 32), (16, 0.5, 0))


def staged(**changes):
    changes = {
        "model__image_size": (16,),
        "schedule__stages": STAGES,
        "schedule__total_steps": 4,
        "checkpoint__every_steps": 1,
        "checkpoint__keep": 9,
        "augment__crop": "resize",
    } | changes
    return tiny_config(**changes)


def test_stages_follow_one_another_in_steps_and_examples():
    first, second = plan_stages(staged(), 5)
    assert (first.first_step, first.last_step, first.batch_size) == (0, 2, 32)
    assert (second.first_step, second.last_step, second.batch_size) == (2, 5, 16)
    assert (first.first_position, second.first_position) == (0, 64)
    assert (first.image_size, second.image_size) == ((8, 8), (16, 16))
    stages = (first, second)
    assert [stage_after(stages, step) for step in (0, 1, 2, 5)] == [
        first,
        first,
        second,
        second,
    ]
    assert [stage_before(stages, step) for step in (0, 1, 2, 3)] == [
        first,
        first,
        first,
        second,
    ]
    assert mean_batch_size(staged()) == 24


def test_without_stages_there_is_one():
    (only,) = plan_stages(tiny_config(), 6)
    assert (only.first_step, only.last_step) == (0, 6)
    assert (only.image_size, only.batch_size) == ((8, 8), 16)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (((8, 1.0, 0),), "the last size is 8 x 8 and must be model.image_size, 16 x"),
        (((8, 0.5, 0), (16, 0.4, 0)), "add up to 0.9 and must to 1"),
        (((8, 0.01, 0), (16, 0.99, 0)), "the stage of 8 x 8 has no step among 4"),
    ],
)
def test_stages_that_can_not_be_are_refused(stages, message):
    with pytest.raises(ValueError, match=message):
        plan_stages(staged(schedule__stages=stages), 4)


def test_sizes_and_batches_are_tried_before_training():
    config = staged(schedule__stages=((10, 0.5, 12), (16, 0.5, 0)))
    with pytest.raises(ValueError) as raised:
        assemble(config)
    assert "schedule.stages: " in str(raised.value)
    assert "schedule.stages: batch=12 must be a multiple of the 8" in str(raised.value)


def test_the_rate_follows_the_batch_of_a_stage():
    stages = plan_stages(staged(), 4)
    plain = optax.linear_schedule(1.0, 0.0, 4)
    scaled = scale_by_stage(plain, plain, stages, 16)
    found = [float(scaled(step)) for step in range(4)]
    np.testing.assert_allclose(found, [2.0, 1.5, 0.5, 0.25])
    assert scale_by_stage(plain, plain, plan_stages(tiny_config(), 4), 16) is plain


def test_tables_and_their_moments_are_resized_and_the_rest_stays():
    config = staged()
    parts = assemble(config)
    spec = resolve("Ti/16", {"width": 16, "depth": 1, "patch_size": 4})
    old, new = parts.at((8, 8)), parts.at((16, 16))
    random = np.random.default_rng(0)
    state = jax.tree.map(
        lambda leaf: jax.device_put(
            np.abs(random.normal(size=leaf.shape)).astype(leaf.dtype), leaf.sharding
        ),
        old.state,
    )
    moved = resize_state(state, new.state, spec, (2, 2), (4, 4))
    assert jax.tree.map(jnp.shape, moved) == jax.tree.map(jnp.shape, new.state)
    before = jax.tree_util.tree_leaves_with_path(state)
    after = jax.tree.leaves(moved)
    tables = 0
    for (path, was), now in zip(before, after, strict=True):
        if "table" in jax.tree_util.keystr(path):
            wanted = resize_grid(np.asarray(was), (2, 2), (4, 4), num_prefix=1)
            np.testing.assert_array_equal(now, wanted)
            assert np.all(np.asarray(now) >= 0)
            tables += 1
        else:
            assert now is was
    # The table itself and both moments of Adam.
    assert tables == 3
    assert resize_state(state, old.state, spec, (2, 2), (2, 2)) is state


class Stopped(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(1, marks=pytest.mark.slow),
        2,
        pytest.param(3, marks=pytest.mark.slow),
    ],
)
def test_a_run_stopped_within_or_between_stages_goes_on_exactly(
    tmp_path, monkeypatch, at
):
    straight, again = tmp_path / "straight", tmp_path / "again"
    train_and_evaluate(staged(), straight)
    advance = Steps.advance

    def stops(self, batches):
        if self.step == at:
            raise Stopped
        advance(self, batches)

    monkeypatch.setattr(Steps, "advance", stops)
    with pytest.raises(Stopped):
        train_and_evaluate(staged(), again)
    monkeypatch.setattr(Steps, "advance", advance)
    train_and_evaluate(staged(), again)
    assert losses(again) == losses(straight)
    assert len(losses(again)) == 4
    for ours, theirs in zip(
        jax.tree.leaves(vit_jax.load(straight).params),
        jax.tree.leaves(vit_jax.load(again).params),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_of_an_early_stage_is_evaluated_at_the_models_size(
    tmp_path, capsys
):
    train_and_evaluate(staged(evals__every_steps=1), tmp_path)
    said = capsys.readouterr().err
    assert "step 2: images of 16 x 16 from here on, in batches of 16" in said
    rows = [
        json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()
    ]
    figures = {row["step"]: row for row in rows if "eval/loss" in row}
    for step in (1, 2, 3, 4):
        loaded = vit_jax.load(tmp_path, step)
        assert loaded.params["position"]["table"].shape[1] == 1 + 16
        found = evaluate_workdir(tmp_path, checkpoint=step)
        np.testing.assert_allclose(found["loss"], figures[step]["eval/loss"], rtol=1e-5)


@pytest.mark.parametrize(
    "stages", [((8, 0.5, 32), (16, 0.5, 0)), ((16, 0.5, 32), (8, 0.5, 0))]
)
def test_a_run_stopped_after_the_border_goes_on_from_the_tables_before_it(
    tmp_path, monkeypatch, capsys, stages
):
    config = staged(
        model__image_size=(stages[-1][0],),
        schedule__stages=stages,
        schedule__total_steps=2,
        schedule__base_batch_size=16,
        checkpoint__every_steps=0,
        data__eval__split="",
    )
    straight, again = tmp_path / "straight", tmp_path / "again"
    train_and_evaluate(config, straight)
    said = capsys.readouterr().err
    first, second = (f"{size} x {size}" for size, *_ in stages)
    assert f"to step 1 {first}: batch 32 (32 a process, 4 a device), peak " in said
    assert "peak learning rate 0.002" in said
    assert f"to step 2 {second}: batch 16 (16 a process, 2 a device), peak" in said
    assert f"step 1: images of {second} from here on, in batches of 16, peak" in said

    compile_ = Steps._compile

    def stops(self, batch):
        if self.step == 1:
            raise Stopped
        compile_(self, batch)

    monkeypatch.setattr(Steps, "_compile", stops)
    with pytest.raises(Stopped):
        train_and_evaluate(config, again)
    table = stored_shapes(again / "checkpoints", 1)["position/table"]
    assert table[1] == 1 + (stages[0][0] // 4) ** 2
    monkeypatch.setattr(Steps, "_compile", compile_)
    train_and_evaluate(config, again)
    assert losses(again) == losses(straight)
    assert len(losses(again)) == 2


@pytest.mark.slow
def test_a_run_goes_on_from_a_stage_that_the_config_has_no_more(tmp_path, monkeypatch):
    config = staged(checkpoint__keep=1, data__eval__split="")
    advance = Steps.advance

    def stops(self, batches):
        if self.step == 1:
            raise Stopped
        advance(self, batches)

    monkeypatch.setattr(Steps, "advance", stops)
    with pytest.raises(Stopped):
        train_and_evaluate(config, tmp_path)
    assert stored_shapes(tmp_path / "checkpoints", 1)["position/table"][1] == 1 + 2 * 2
    monkeypatch.setattr(Steps, "advance", advance)
    config.schedule.stages = ()
    assert train_and_evaluate(config, tmp_path).finished
    assert stored_shapes(tmp_path / "checkpoints", 4)["position/table"][1] == 1 + 4 * 4
