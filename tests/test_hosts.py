"""Processes that wait for others say for whom, and end with a message."""

import socket
import subprocess
import sys

import pytest

from vit_jax import hosts


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_one_host_needs_no_other(monkeypatch):
    monkeypatch.setattr(hosts.jax.distributed, "initialize", pytest.fail)
    for name in ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    assert not hosts.join(say=pytest.fail)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert not hosts.join(distributed="off", say=pytest.fail)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("JAX_COORDINATOR_ADDRESS", "host:1"),
    ],
)
def test_a_launcher_s_environment_is_recognised(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    calls, said = [], []
    monkeypatch.setattr(
        hosts.jax.distributed, "initialize", lambda *a, **k: calls.append((a, k))
    )
    assert hosts.join(say=said.append)
    ((arguments, options),) = calls
    assert arguments == (None, None, None)
    assert options["cluster_detection_method"] is None
    assert f"{name}={value}" in said[0]


def test_a_tpu_slice_is_recognised_by_its_hosts(monkeypatch, tmp_path):
    (tmp_path / "accel0").touch()
    monkeypatch.setattr(hosts, "_TPU_DEVICES", (str(tmp_path / "accel0"),))
    assert hosts._why_several(None, {"TPU_WORKER_HOSTNAMES": "localhost"}) == ""
    four = {"TPU_WORKER_HOSTNAMES": "a,b,c,d"}
    assert hosts._why_several(None, four) == "a TPU slice of 4 hosts"
    assert "8 hosts" in hosts._why_several(None, four | {"MEGASCALE_NUM_SLICES": "2"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("host:1", 2, None), "--process_id must be given too"),
        ((None, None, 0), "--coordinator, --num_processes must be given too"),
        (("host:1", 2, 2), "--process_id=2 must be 0 … 1"),
        (("host:port", 2, 0), "--coordinator=host:port must be HOST or HOST:PORT"),
        ((":1", 2, 0), "must be HOST or HOST:PORT"),
    ],
)
def test_what_contradicts_itself_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        hosts.join(*arguments)


def test_a_coordinator_that_does_not_answer_is_named():
    address = free_address()
    with pytest.raises(
        TimeoutError, match=f"nothing answers at --coordinator={address}"
    ):
        hosts.join(address, 2, 1, timeout=1, say=lambda line: None)


@pytest.mark.slow
def test_a_missing_host_ends_the_first_with_a_message():
    """Case 100: not a silent hang, and not an abort with a stack trace."""
    code = f"from vit_jax import hosts; hosts.join({free_address()!r}, 2, 0, timeout=3)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stderr
    assert "3 s have passed and not all processes are here" in done.stderr
    assert "stack trace" not in done.stderr
