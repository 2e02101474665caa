"""The training loop: steps, checkpoints, evaluations, in an order that survives kills.

At step k the journal's row comes first, then the checkpoint, then the evaluation. So a
checkpoint never lacks rows of the journal, and an evaluation that fails loses no work.
"""

import collections
import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from vit_jax.checkpoint import Checkpoints, complete_steps
from vit_jax.evals import classification
from vit_jax.train import mesh as meshes
from vit_jax.train import resume
from vit_jax.train.assemble import Parts, assemble
from vit_jax.train.interrupt import StopRequest
from vit_jax.train.metrics import Journal, Progress, TensorBoard, Throughput
from vit_jax.train.state import TrainState, abstract_state, create_state
from vit_jax.workdir import Workdir

# Steps that may be under way before the host looks at their figures: enough that the
# device never waits for the host, few enough that a diverged run stops at once.
_IN_FLIGHT = 2


class TrainingDiverged(RuntimeError):
    """The loss or the gradient stopped being a number."""


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended: its step, whether that is the last one, and the last figures."""

    step: int
    finished: bool
    evaluation: dict[str, Any] | None


def train_and_evaluate(
    config: ConfigDict, workdir: str | os.PathLike, *, faults: Sequence[str] = ()
) -> Result:
    """Trains to the last step, from the newest checkpoint in `workdir` if there is one.

    Args:
      config: see `vit_jax.config`.
      workdir: the run's folder, made if need be; may be gs://.
      faults: what is already known to be wrong, to be reported with the rest.

    Raises:
      ValueError: faults of the config, all together, before anything is compiled; or a
        workdir that can't be written or holds another model's run.
      TrainingDiverged: loss or gradient is not finite; the last good checkpoint stays.
    """
    parts = assemble(config, faults=faults)
    run = Run(parts, Workdir(workdir))
    try:
        return run.execute()
    finally:
        run.close()


class Run:
    """One call of the training command on one workdir."""

    def __init__(self, parts: Parts, workdir: Workdir):
        self.parts = parts
        self.config = parts.config
        self.workdir = workdir
        workdir.create()
        self.start_step = max(complete_steps(workdir.checkpoints), default=0)
        if self.start_step:
            resume.refuse_other_run(workdir, parts)
        resume.describe_run(workdir, parts)
        self.journal = Journal(workdir.metrics)
        self.journal.cut(self.start_step)
        self.checkpoints = Checkpoints(
            workdir.checkpoints, keep=self.config.checkpoint.keep
        )
        self.tensorboard = (
            TensorBoard(workdir.tensorboard, restart_step=self.start_step)
            if self.config.log.tensorboard
            else None
        )
        self.progress = Progress(
            total=parts.total_steps,
            initial=self.start_step,
            enabled=self.config.log.progress,
        )
        self.throughput = Throughput(self.config.data.train.batch_size)
        self.pending: collections.deque = collections.deque()
        self.saved_step = self.start_step
        self.sums = classification.make_sums(parts.logits_of)

    def execute(self) -> Result:
        """Trains from the restored step to the last; see `train_and_evaluate`."""
        step = self.start_step
        if step >= self.parts.total_steps and self._evaluated(step):
            return self._already_finished()
        self.progress.say(self._introduction())
        state = self._first_state()
        if self._evaluation_due(step) and not self._evaluated(step):
            self._evaluate(step, state)
        batches = self.parts.inputs.train_batches(step)
        with StopRequest() as stop, contextlib.closing(batches):
            while step < self.parts.total_steps and not stop.requested:
                state = self._step(step, state, batches)
                step += 1
                if self._checkpoint_due(step):
                    self._save(step, state)
                if self._evaluation_due(step):
                    self._evaluate(step, state)
            if stop.requested:
                self._save(step, state)
        return self._ended(step)

    def close(self) -> None:
        """Waits for the last save and closes the writers."""
        self.progress.close()
        if self.tensorboard:
            self.tensorboard.close()
        self.checkpoints.close()

    def _first_state(self) -> TrainState:
        parts = self.parts
        if not self.start_step:
            return create_state(
                parts.model,
                parts.optimizer,
                parts.image_shape,
                parts.mesh,
                self.config.seed,
            )
        self.progress.say(f"going on from the checkpoint of step {self.start_step}")
        abstract = abstract_state(
            parts.model, parts.optimizer, parts.image_shape, parts.mesh
        )
        rest = {"step": abstract.step, "opt_state": abstract.opt_state}
        params, rest = self.checkpoints.restore(self.start_step, abstract.params, rest)
        return TrainState(params=params, **rest)

    def _step(
        self, step: int, state: TrainState, batches: Iterator[dict[str, Any]]
    ) -> TrainState:
        """The state after `step` + 1; figures are looked at a little later."""
        began = time.perf_counter()
        try:
            batch = next(batches)
        except (ValueError, OSError):
            # Unreadable data costs the run, not the work done so far.
            self._save(step, state)
            raise
        waited = time.perf_counter() - began
        batch = meshes.put_batch(batch, self.parts.mesh)
        if step == self.start_step:
            self._compile(state, batch)
        state, figures = self.train_step(state, batch)
        self.throughput.step(waited)
        self.pending.append((step + 1, figures))
        self._settle(_IN_FLIGHT)
        self.progress.advance()
        return state

    def _compile(self, state: TrainState, batch: dict[str, jax.Array]) -> None:
        """Compiles now, so that the wait is announced and not counted as training."""
        self.progress.say("compiling the training step …")
        began = time.perf_counter()
        self.train_step = self.parts.train_step.lower(state, batch).compile()
        self.progress.say(f"compiled in {time.perf_counter() - began:.1f} s")
        self.progress.start()
        self.throughput.restart()

    def _settle(self, in_flight: int) -> None:
        """Looks at the figures of all steps but the newest `in_flight`."""
        while len(self.pending) > in_flight:
            step, figures = self.pending.popleft()
            figures = {name: float(value) for name, value in figures.items()}
            if not all(math.isfinite(value) for value in figures.values()):
                raise TrainingDiverged(self._diverged(step, figures))
            if step % self.config.log.every_steps and step != self.parts.total_steps:
                continue
            row = {"step": step} | figures | self.throughput.report()
            self._record(row)
            self.progress.show(row)

    def _record(self, row: dict[str, Any]) -> None:
        self.journal.write(row)
        if self.tensorboard:
            self.tensorboard.write(row)

    def _save(self, step: int, state: TrainState) -> None:
        """Starts a save of `step` unless it is saved; refuses a diverged state."""
        self._settle(0)
        if step == self.saved_step:
            return
        rest = {"step": state.step, "opt_state": state.opt_state}
        self.checkpoints.save(step, state.params, rest)
        self.saved_step = step

    def _evaluate(self, step: int, state: TrainState) -> None:
        self._settle(0)
        batches = (
            meshes.put_batch(batch, self.parts.mesh)
            for batch in self.parts.inputs.eval_batches()
        )
        figures = classification.evaluate(self.sums, state.params, batches)
        row = {"step": step} | {f"eval/{name}": v for name, v in figures.items()}
        self._record(row)
        self.progress.say(
            f"step {step}: {self.config.data.eval.split} accuracy "
            f"{figures['accuracy']:.2%}, loss {figures['loss']:.4f} "
            f"({figures['examples']} images)"
        )
        self.throughput.restart()

    def _checkpoint_due(self, step: int) -> bool:
        every = self.config.checkpoint.every_steps
        return step == self.parts.total_steps or bool(every and step % every == 0)

    def _evaluation_due(self, step: int) -> bool:
        every = self.config.evals.every_steps
        return step == self.parts.total_steps or bool(
            step and every and step % every == 0
        )

    def _evaluated(self, step: int) -> bool:
        row = self.journal.last("eval/accuracy")
        return row is not None and row["step"] == step

    def _introduction(self) -> str:
        """What is about to happen, in numbers that can be checked against a recipe."""
        parts, config = self.parts, self.config
        devices = jax.devices()
        batch = config.data.train.batch_size
        return (
            f"{config.data.source}: {parts.inputs.num_examples:,} training images, "
            f"{len(parts.inputs.class_names)} classes; {config.model.variant}: "
            f"{parts.num_params:,} parameters\n"
            f"batch {batch} ({batch // meshes.batch_devices(parts.mesh)} a device) on "
            f"{len(devices)} {devices[0].device_kind} device(s) of "
            f"{jax.process_count()} process(es), peak learning rate "
            f"{parts.peak_learning_rate:g}, {parts.total_steps:,} steps"
        )

    def _already_finished(self) -> Result:
        self.progress.say(
            f"this run is finished: step {self.start_step} of "
            f"{self.parts.total_steps} is saved in {self.workdir.path}; raise "
            "schedule.total_steps or total_epochs to train on, or name another workdir"
        )
        return Result(self.start_step, True, self.journal.last("eval/accuracy"))

    def _ended(self, step: int) -> Result:
        finished = step >= self.parts.total_steps
        if not finished:
            self.checkpoints.wait()
            self.progress.say(
                f"interrupted: step {step} is saved; the same command goes on from it"
            )
        return Result(step, finished, self.journal.last("eval/accuracy"))

    def _diverged(self, step: int, figures: dict[str, float]) -> str:
        kept = (
            f"the last good checkpoint, step {self.saved_step}, is kept"
            if self.saved_step
            else "no checkpoint was saved before"
        )
        shown = ", ".join(f"{name} {value}" for name, value in figures.items())
        return (
            f"training diverged at step {step}: {shown}; {kept} in "
            f"{self.workdir.path}. Lower schedule.base_learning_rate, lengthen "
            "schedule.warmup_steps or set optimizer.clip_norm=1, and start again."
        )
