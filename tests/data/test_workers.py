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
