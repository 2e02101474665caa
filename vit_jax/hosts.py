"""How the processes of a run on several hosts find one another.

`jax.distributed.initialize` knows the clusters; this says when to call it, what the
process waits for, and what is wrong when a host is missing: by itself JAX aborts.
"""

import contextlib
import os
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping

import jax

TIMEOUT_SECONDS = 300
_DEFAULT_PORT = 8476
# Set by a launcher in each process that it starts -> how many it started.
_COUNTS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
_TPU_DEVICES = ("/dev/accel0", "/dev/vfio/0")
_TPU_HOSTS = (
    "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
    "worker-network-endpoints"
)


def join(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    distributed: str = "auto",
    timeout: int = TIMEOUT_SECONDS,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> bool:
    """Joins the other processes of a run; returns whether there are any.

    Must come before anything else asks JAX for its devices.

    Args:
      coordinator: HOST or HOST:PORT of process 0, None: the cluster's environment
        (TPU pod, Slurm, Open MPI) says it, or there is no cluster.
      num_processes: how many processes the run has.
      process_id: 0 … num_processes - 1, which of them this is.
      distributed: "auto": joins where arguments or environment say that there are
        several; "on": whatever they say; "off": never, as for one host of a pod alone.
      timeout: seconds to wait for the others; then the process ends with status 1.
      say: takes sentences for people.

    Raises:
      ValueError: the arguments contradict each other.
      TimeoutError: process 0 doesn't answer.
    """
    _check(coordinator, num_processes, process_id, distributed, timeout)
    why = "" if distributed == "off" else _why_several(coordinator, os.environ)
    if not why and distributed == "on":
        why = "--distributed=on"
    if not why:
        return False
    say(f"{why}: waiting up to {timeout} s for the other processes …")
    if coordinator:
        name, _, port = coordinator.partition(":")
        coordinator = f"{name}:{port or _DEFAULT_PORT}"
        if process_id:
            _await_coordinator(coordinator, process_id, timeout)
    missing = (
        f"error: {timeout} s have passed and not all processes are here ({why}). Start "
        "the same command on every host, each with its own --process_id from 0 on "
        "where you give them yourself, or give --distributed=off for this host alone."
    )
    with _ends_after(timeout, lambda: say(missing)):
        # Gives up after we do: its own end is an abort with a stack trace.
        jax.distributed.initialize(
            coordinator,
            num_processes,
            process_id,
            cluster_detection_method="deactivate" if coordinator else None,
            initialization_timeout=2 * timeout,
        )
    say(f"process {jax.process_index()} of {jax.process_count()} has joined")
    return True


def _check(
    coordinator: str | None,
    num_processes: int | None,
    process_id: int | None,
    distributed: str,
    timeout: int,
) -> None:
    given = {
        "--coordinator": coordinator,
        "--num_processes": num_processes,
        "--process_id": process_id,
    }
    lacking = [name for name, value in given.items() if value is None]
    if lacking and len(lacking) < len(given):
        raise ValueError(
            f"{', '.join(lacking)} must be given too: --coordinator=HOST:PORT of "
            "process 0, --num_processes=N and --process_id=0 … N-1 belong together."
        )
    if not lacking and not 0 <= process_id < num_processes:
        raise ValueError(
            f"--process_id={process_id} must be 0 … {num_processes - 1}, as "
            f"--num_processes={num_processes}."
        )
    if coordinator is not None:
        name, colon, port = coordinator.partition(":")
        if not name or (colon and not (port.isdigit() and 0 < int(port) < 65536)):
            raise ValueError(f"--coordinator={coordinator} must be HOST or HOST:PORT.")
        if distributed == "off":
            raise ValueError("--coordinator and --distributed=off exclude each other.")
    if timeout < 1:
        raise ValueError(f"--host_timeout={timeout} must be 1 second or more.")


def _why_several(coordinator: str | None, environment: Mapping[str, str]) -> str:
    """What says that this process is one of several, or ""."""
    if coordinator:
        return f"--coordinator={coordinator}"
    for name in ("JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS"):
        if environment.get(name):
            return f"{name}={environment[name]}"
    for name in _COUNTS:
        if environment.get(name, "1") not in ("", "0", "1"):
            return f"{name}={environment[name]}"
    if any(os.path.exists(device) for device in _TPU_DEVICES):
        count = _tpu_hosts(environment)
        return f"a TPU slice of {count} hosts" if count > 1 else ""
    return ""


def _tpu_hosts(environment: Mapping[str, str]) -> int:
    """How many hosts the TPU slice of this one has, by its environment or its cloud."""
    names = environment.get("TPU_WORKER_HOSTNAMES")
    slices = environment.get("MEGASCALE_NUM_SLICES", "1")
    if names is None:
        request = urllib.request.Request(
            _TPU_HOSTS, headers={"Metadata-Flavor": "Google"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                names = answer.read().decode()
        # Not a machine of that cloud, or one without such a name.
        except OSError:
            names = ""
    return len(names.split(",")) * (int(slices) if slices.isdigit() else 1)


def _await_coordinator(address: str, process_id: int, timeout: int) -> None:
    """Returns as soon as something listens at HOST:PORT."""
    name, _, port = address.partition(":")
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((name, int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"process {process_id}: nothing answers at --coordinator={address} "
                    f"after {timeout} s ({error}). Process 0 must run the same command "
                    "on that host, and its port must be open to this one."
                ) from error
        time.sleep(0.5)


@contextlib.contextmanager
def _ends_after(timeout: int, say: Callable[[], None]) -> Iterator[None]:
    """Ends this process with status 1 if the body takes longer than `timeout` seconds.

    The body waits in C++, where no exception reaches it.
    """

    def end() -> None:
        say()
        os._exit(1)

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
