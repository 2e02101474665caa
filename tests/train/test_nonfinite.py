"""Steps whose loss or gradient is not a number, in a whole run."""

import itertools
import types

import jax.numpy as jnp
import pytest

from tests.train.digits import tiny_config
from tests.train.journals import rows
from vit_jax.train import mixing
from vit_jax.train.inputs import open_inputs
from vit_jax.train.loop import TrainingDiverged, train_and_evaluate
from vit_jax.train.nonfinite import examples_of
from vit_jax.train.stages import plan_stages
from vit_jax.train.step import step_keys


def losing(monkeypatch, *steps):
    """Makes the gradient of so many steps nan."""
    prepare = mixing.prepare

    def spoilt(batch, key, **keywords):
        images, targets = prepare(batch, key, **keywords)
        bad = sum(key == step_keys(0, step - 1)[0] for step in steps)
        return images, jnp.where(bad, jnp.nan, targets)

    monkeypatch.setattr(mixing, "prepare", spoilt)


def test_steps_without_a_number_are_passed_over_up_to_the_limit(
    tmp_path, monkeypatch, capsys
):
    losing(monkeypatch, 3, 5)
    config = tiny_config(train__max_nonfinite_steps=2, log__every_steps=2)
    assert train_and_evaluate(config, tmp_path).finished
    said = capsys.readouterr().err
    assert "step 3 is passed over, 1 of at most 2: gradient_norm nan, loss nan" in said
    assert "on examples 32 to 47 of the run (digits" in said
    found = {row["step"]: row for row in rows(tmp_path) if "loss" in row}
    assert [step for step, row in found.items() if row["loss"] is None] == [3, 5]
    assert found[3]["passed_over"] is found[5]["passed_over"] is True
    assert found[3]["gradient_norm"] is None
    assert found[6]["nonfinite_steps"] == 2
    assert "nonfinite_steps" not in found[2]
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()


@pytest.mark.parametrize(
    "changes",
    [{}, {"augment__repeats": 3}, {"augment__preset": "deit"}],
    ids=["once", "repeats", "preset"],
)
def test_the_examples_named_are_those_of_the_step(changes):
    config = tiny_config(data__train__batch_size=6, **changes)
    inputs = open_inputs(config, evaluation=False)
    source = inputs.train_source
    parts = types.SimpleNamespace(
        config=config, stages=plan_stages(config, 6), inputs=inputs
    )
    said = examples_of(parts, 3)
    assert said.startswith("examples 12 to 17 of the run (")
    labels = {source.name(n): label for n, label in enumerate(source.labels())}
    named = [labels[name] for name in said.partition("(")[2][:-1].split(", ")]
    batch = next(itertools.islice(inputs.train_batches(0), 2, None))
    assert named == batch["label"].tolist()


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
        match=r"at step 5: .*loss nan on examples 64 to 79 of the run .*"
        r"checkpoints/4 is the newest",
    ):
        train_and_evaluate(config, tmp_path)
