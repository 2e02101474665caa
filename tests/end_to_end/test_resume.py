"""A run that is killed and started again is the run that was never killed."""

import numpy as np
import pytest

from tests.end_to_end import runs
from vit_jax.checkpoint import complete_steps


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("straight")
    runs.train(workdir, data__workers=2)
    return workdir


def killed_between_and_during_saves(folder):
    """A workdir that kill -9 left between two saves, then within one."""
    # Saves are quick: a kill may come when each is over.
    for attempt in range(4):
        workdir = folder / str(attempt)
        runs.train_until(workdir, runs.reached(workdir, 17), runs.KILL, data__workers=2)
        for after in range(20, 80, 20):
            killed = runs.train_until(
                workdir, runs.saving(workdir, after), runs.KILL, data__workers=2
            )
            assert killed.returncode == -9
            if any((workdir / "checkpoints").glob("*orbax-checkpoint-tmp*")):
                return workdir
    return pytest.fail("each save was over before its kill came")


def assert_same_run(one, other):
    """Equal losses and figures, equal bits of all that is saved, the best too."""
    assert runs.losses(one) == runs.losses(other)
    assert runs.rows(one)[-1] == runs.rows(other)[-1]
    assert (one / "best.json").read_bytes() == (other / "best.json").read_bytes()
    ours, theirs = runs.arrays(one), runs.arrays(other)
    assert ours.keys() == theirs.keys()
    assert {name.split("/")[2] for name in ours} == {"params", "ema_params", "training"}
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


@pytest.mark.slow
def test_kills_between_and_during_saves_change_no_bit(uninterrupted, tmp_path):
    workdir = killed_between_and_during_saves(tmp_path)
    runs.train_until(workdir, runs.reached(workdir, 95), runs.KILL, data__workers=2)
    # The save of step 80 may still have been under way.
    assert complete_steps(workdir / "checkpoints")[-1] in (60, 80)
    runs.train(workdir, data__workers=2)
    assert_same_run(workdir, uninterrupted)


@pytest.mark.slow
def test_worker_processes_change_no_bit(uninterrupted, tmp_path):
    runs.train(tmp_path, data__workers=0)
    assert runs.losses(tmp_path) == runs.losses(uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal", "status", "word"),
    [(runs.INTERRUPT, 130, "interrupted"), (runs.TERMINATE, 143, "terminated")],
)
def test_a_signal_saves_says_so_and_the_same_command_goes_on(
    uninterrupted, tmp_path, signal, status, word
):
    stopped = runs.train_until(
        tmp_path, runs.reached(tmp_path, 33), signal, data__workers=2
    )
    assert stopped.returncode == status
    assert "Traceback" not in stopped.stdout, stopped.stdout
    step = complete_steps(tmp_path / "checkpoints")[-1]
    assert f"{word}: step {step} is saved" in stopped.stdout
    assert step >= 33
    assert f"going on from the checkpoint of step {step}" in runs.train(tmp_path)
    assert runs.losses(tmp_path) == runs.losses(uninterrupted)


@pytest.mark.slow
def test_sigterm_while_compiling_and_evaluating_and_saving(uninterrupted, tmp_path):
    moments = (
        runs.described(tmp_path),
        runs.saving(tmp_path, after=0),
        runs.evaluating(tmp_path, 50),
    )
    for moment in moments:
        stopped = runs.train_until(
            tmp_path,
            moment,
            runs.TERMINATE,
            data__workers=2,
            data__eval__batch_size=1,
        )
        assert stopped.returncode == 143, stopped.stdout
        assert "Traceback" not in stopped.stdout, stopped.stdout
    assert complete_steps(tmp_path / "checkpoints")[-1] == 50
    assert not any("eval/accuracy" in row for row in runs.rows(tmp_path))
    runs.train(tmp_path, data__workers=2)
    assert runs.losses(tmp_path) == runs.losses(uninterrupted)
    evaluated = [row["step"] for row in runs.rows(tmp_path) if "eval/accuracy" in row]
    assert evaluated == [50, 100]


@pytest.mark.slow
def test_a_finished_run_says_so_and_changes_nothing(uninterrupted):
    before = (uninterrupted / "metrics.jsonl").read_text()
    assert "this run is finished: step 100 of 100" in runs.train(uninterrupted)
    assert (uninterrupted / "metrics.jsonl").read_text() == before
