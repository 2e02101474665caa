"""A run that is killed and started again is the run that was never killed."""

import pytest

from tests.end_to_end import runs
from vit_jax.checkpoint import complete_steps


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("straight")
    runs.train(workdir, data__workers=2)
    return workdir


@pytest.mark.slow
def test_three_kills_between_and_during_saves_change_no_bit(uninterrupted, tmp_path):
    moments = (
        runs.reached(tmp_path, 25),
        runs.saving(tmp_path, after=20),
        runs.reached(tmp_path, 75),
    )
    for moment in moments:
        killed = runs.train_until(tmp_path, moment, runs.KILL, data__workers=2)
        assert killed.returncode == -9
        if moment is moments[1]:
            assert any((tmp_path / "checkpoints").glob("*orbax-checkpoint-tmp*"))
    runs.train(tmp_path, data__workers=2)
    assert runs.losses(tmp_path) == runs.losses(uninterrupted)
    assert runs.rows(tmp_path)[-1] == runs.rows(uninterrupted)[-1]


@pytest.mark.slow
def test_worker_processes_change_no_bit(uninterrupted, tmp_path):
    runs.train(tmp_path, data__workers=0)
    assert runs.losses(tmp_path) == runs.losses(uninterrupted)


@pytest.mark.slow
def test_ctrl_c_saves_says_so_and_the_same_command_goes_on(uninterrupted, tmp_path):
    stopped = runs.train_until(
        tmp_path, runs.reached(tmp_path, 33), runs.INTERRUPT, data__workers=2
    )
    assert stopped.returncode == 130
    assert "Traceback" not in stopped.stdout, stopped.stdout
    (step,) = [step for step in complete_steps(tmp_path / "checkpoints") if step > 20]
    assert f"interrupted: step {step} is saved" in stopped.stdout
    assert step >= 33
    assert f"going on from the checkpoint of step {step}" in runs.train(tmp_path)
    assert runs.losses(tmp_path) == runs.losses(uninterrupted)


@pytest.mark.slow
def test_a_finished_run_says_so_and_changes_nothing(uninterrupted):
    before = (uninterrupted / "metrics.jsonl").read_text()
    assert "this run is finished: step 100 of 100" in runs.train(uninterrupted)
    assert (uninterrupted / "metrics.jsonl").read_text() == before
