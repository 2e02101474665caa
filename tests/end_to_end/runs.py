"""Training commands as processes, on the bundled digits, small enough for tests."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp

from vit_jax.checkpoint import complete_steps

# A tiny model with every source of randomness on, each loss in the journal.
TINY = {
    "model.width": 32,
    "model.depth": 2,
    "model.num_heads": 2,
    "model.mlp_dim": 64,
    "model.dropout": 0.1,
    "model.attention_dropout": 0.1,
    "model.stochastic_depth": 0.1,
    "augment.mixup": 0.2,
    "data.std": 0.5,
    "data.train.batch_size": 64,
    "schedule.base_learning_rate": 1e-3,
    "schedule.total_epochs": "unset",
    "schedule.total_steps": 100,
    "schedule.warmup_share": 0.1,
    "train.ema_decay": 0.9,
    "checkpoint.every_steps": 20,
    "checkpoint.best_metric": "eval/accuracy",
    "evals.every_steps": 50,
    "log.every_steps": 1,
    "log.tensorboard": False,
}


def command(workdir: Path, **changes) -> list[str]:
    """The training command on `workdir`; `changes` has keys with __ for dots."""
    values = TINY | {key.replace("__", "."): value for key, value in changes.items()}
    flags = [f"--config.{key}={value}" for key, value in values.items()]
    start = [sys.executable, "-m", "vit_jax", "train", "--config=digits"]
    return [*start, f"--workdir={workdir}", *flags]


def environment(devices: int = 1) -> dict[str, str]:
    """The environment of a process with so many simulated CPU devices."""
    return os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}


def train(workdir: Path, *, devices: int = 1, **changes) -> str:
    """Runs the command to its end; returns what it said; fails on another status."""
    done = subprocess.run(
        command(workdir, **changes),
        env=environment(devices),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def train_until(
    workdir: Path,
    condition: Callable[[], bool],
    signal_number: int,
    *,
    devices: int = 1,
    **changes,
) -> subprocess.CompletedProcess:
    """Runs the command and sends it a signal as soon as `condition` holds."""
    process = subprocess.Popen(
        command(workdir, **changes),
        env=environment(devices),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.001)
    # To the whole group, as a terminal's Ctrl-C: workers get it too.
    os.killpg(process.pid, signal_number)
    output, _ = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout=output)


def losses(workdir: Path) -> dict[int, float]:
    """Step -> loss, from the journal; fails when a step stands twice."""
    found = {}
    for row in rows(workdir):
        if "loss" in row:
            assert row["step"] not in found, f"step {row['step']} stands twice"
            found[row["step"]] = row["loss"]
    return found


def rows(workdir: Path) -> list[dict]:
    """The whole lines of the journal, [] before there is one."""
    file = workdir / "metrics.jsonl"
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def arrays(workdir: Path) -> dict[str, np.ndarray]:
    """All that the newest checkpoint and the best one hold, by name."""
    found = {}
    for kind in ("checkpoints", "best"):
        step = complete_steps(workdir / kind)[-1]
        for item in sorted((workdir / kind / str(step)).iterdir()):
            if not item.is_dir():
                continue
            with ocp.PyTreeCheckpointer() as checkpointer, warnings.catch_warnings():
                # Arrays lie here as where they were saved; Orbax warns of that.
                warnings.simplefilter("ignore", UserWarning)
                tree = checkpointer.restore(item)
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
                name = jax.tree_util.keystr(path, simple=True, separator="/")
                found[f"{kind}/{step}/{item.name}/{name}"] = np.asarray(leaf)
    return found


def reached(workdir: Path, step: int) -> Callable[[], bool]:
    """Whether the journal holds `step`."""
    return lambda: any(row["step"] >= step for row in rows(workdir))


def saving(workdir: Path, after: int) -> Callable[[], bool]:
    """Whether a save of a step after `after` is under way."""

    def holds() -> bool:
        folder = workdir / "checkpoints"
        if not folder.exists():
            return False
        return any(
            "orbax-checkpoint-tmp" in entry.name
            and int(entry.name.split(".")[0]) > after
            for entry in folder.iterdir()
        )

    return holds


def described(workdir: Path) -> Callable[[], bool]:
    """Whether the run has described itself, which it does before it compiles."""
    return (workdir / "preprocessing.json").exists


def evaluating(workdir: Path, step: int) -> Callable[[], bool]:
    """Whether the evaluation of `step` is under way."""
    return lambda: [row["step"] for row in rows(workdir)][-1:] == [step]


KILL = signal.SIGKILL
INTERRUPT = signal.SIGINT
TERMINATE = signal.SIGTERM
