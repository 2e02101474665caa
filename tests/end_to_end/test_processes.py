"""Two real processes over loopback stop and save at the same step."""

import socket
import subprocess
import time

import pytest
from etils import epath

from tests.end_to_end import runs
from vit_jax.checkpoint import complete_steps
from vit_jax.train.lock import held


def start_both(workdir, **changes):
    """The training command as two processes that share its batches."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = runs.environment() | {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    return [
        subprocess.Popen(
            [
                *runs.command(workdir, **changes),
                f"--coordinator={address}",
                "--num_processes=2",
                f"--process_id={index}",
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]


def ends_of(processes):
    """[(exit status, output)], the rest killed if one doesn't end."""
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        (process.returncode, output)
        for process, output in zip(processes, outputs, strict=True)
    ]


@pytest.mark.slow
def test_a_signal_to_one_of_two_processes_stops_both_at_one_saved_step(tmp_path):
    workdir = tmp_path / "two"
    # Saves by the clock come in between: they need the agreement too.
    changes = {"checkpoint__every_minutes": 0.01}
    both = start_both(workdir, **changes)
    deadline = time.monotonic() + 300
    while not runs.reached(workdir, 30)():
        assert all(process.poll() is None for process in both), ends_of(both)
        assert time.monotonic() < deadline, ends_of(both)
        time.sleep(0.01)
    both[1].terminate()
    ends = ends_of(both)
    assert [status for status, _ in ends] == [143, 143], ends
    step = complete_steps(workdir / "checkpoints")[-1]
    assert f"terminated: step {step} is saved" in ends[0][1]
    assert step >= 30
    ends = ends_of(start_both(workdir, **changes))
    assert [status for status, _ in ends] == [0, 0], ends
    runs.train(tmp_path / "one")
    one, two = runs.losses(tmp_path / "one"), runs.losses(workdir)
    assert list(one) == list(two) == list(range(1, 101))
    assert max(abs(one[step] - two[step]) for step in one) < 1e-5


@pytest.mark.slow
def test_a_workdir_in_use_is_refused_by_both_processes(tmp_path):

    with held(epath.Path(tmp_path / "run.lock")):
        ends = ends_of(start_both(tmp_path))
    assert [status for status, _ in ends] == [2, 2], ends
    assert "is in use: process" in ends[0][1]
