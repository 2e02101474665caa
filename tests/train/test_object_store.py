"""A whole run in a workdir at gs://, on a store in memory."""

import pytest

from tests.train.digits import tiny_config
from tests.train.journals import losses
from vit_jax.checkpoint import complete_steps
from vit_jax.train import lock
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.loop import train_and_evaluate


@pytest.mark.slow
def test_a_run_saves_resumes_and_is_read_in_an_object_store(
    object_store, tmp_path, monkeypatch
):
    monkeypatch.setattr(lock, "_SETTLE_SECONDS", 0.0)
    config = tiny_config(schedule__decay="constant", log__tensorboard=True)
    train_and_evaluate(config, object_store)
    checkpoints = object_store / "checkpoints"
    assert complete_steps(checkpoints) == [4, 6]
    # Cut off before its last file: step 6 doesn't count, and is kept aside.
    (checkpoints / "6" / "commit_success.txt").unlink()
    config.schedule.total_steps = 8
    result = train_and_evaluate(config, object_store)
    assert complete_steps(checkpoints) == [6, 8]
    assert any(
        folder.name.startswith("6.incomplete-") for folder in checkpoints.iterdir()
    )
    train_and_evaluate(config, tmp_path)
    assert losses(object_store) == losses(tmp_path)
    figures = evaluate_workdir(object_store)
    assert figures["accuracy"] == result.evaluation["eval/accuracy"]
    assert not (object_store / "run.lock").exists()
    assert len(list((object_store / "tensorboard").iterdir())) == 2


def test_a_second_run_in_a_store_is_refused(object_store, monkeypatch):
    monkeypatch.setattr(lock, "_SETTLE_SECONDS", 0.0)
    with (
        lock.held(object_store / "run.lock"),
        pytest.raises(ValueError, match=r"workdir gs://bucket/run is in use"),
    ):
        train_and_evaluate(tiny_config(), object_store)
