"""A worker outlives signals that were meant for its parent, but not for long."""

import signal
import subprocess
import sys

START = """
import os, time
from vit_jax.data import workers
workers._GRACE_SECONDS = 1
workers.start_worker(os.getppid(), 0, 1)
print("started", flush=True)
while True:
    time.sleep(0.05)
"""


def start():
    worker = subprocess.Popen(
        [sys.executable, "-c", START], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout.readline() == "started\n"
    return worker


def test_sigterm_ends_a_forgotten_worker_by_an_alarm():
    worker = start()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=20)
    assert worker.returncode == -signal.SIGALRM


def test_ctrl_c_leaves_a_worker_alone():
    worker = start()
    worker.send_signal(signal.SIGINT)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=20)
    assert worker.returncode == -signal.SIGALRM


IMPORTING = """
import os, signal, subprocess, sys
from vit_jax.data.workers import signals_held
child = (
    "import os, signal, time; time.sleep(1)\\n"
    "from vit_jax.data.workers import start_worker\\n"
    "start_worker(os.getppid(), 0, 1)\\n"
    "print('started', flush=True)"
)
with signals_held():
    worker = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
worker.send_signal(signal.SIGINT)
print(worker.communicate()[0].decode(), worker.returncode)
print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_ctrl_c_leaves_a_worker_alone_that_is_still_importing():
    said = subprocess.run(
        [sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=True
    )
    assert said.stdout == "started\n 0\nFalse\n"
