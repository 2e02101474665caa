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
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from vit_jax.checkpoint import Checkpoints, complete_steps, restore, restore_ema
from vit_jax.evals import classification
from vit_jax.models.variants import in_words
from vit_jax.train import advice, nonfinite, resume
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts, assemble
from vit_jax.train.interrupt import StopRequest
from vit_jax.train.metrics import Journal, Progress, TensorBoard, Throughput
from vit_jax.train.state import TrainState, create_state
from vit_jax.weights import model_fields
from vit_jax.workdir import Workdir

# Steps that may be under way before the host looks at their figures: enough that the
# device never waits for the host, few enough that a diverged run stops at once.
_IN_FLIGHT = 2
_SKIPPED_SHOWN = 20


_norm = jax.jit(optax.tree.norm)


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
      TrainingDiverged: loss or gradient was not finite in more steps than
        train.max_nonfinite_steps allows; the last good checkpoint stays.
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
        self.step = self.start_step = max(
            complete_steps(workdir.checkpoints), default=0
        )
        self.saved_step = self.start_step
        # Process 0 speaks and writes for all; checkpoints are written by all.
        self.leads = jax.process_index() == 0
        self.journal = Journal(workdir.metrics)
        self.tensorboard: TensorBoard | None = None
        self.progress = Progress(
            total=parts.total_steps,
            initial=self.start_step,
            enabled=self.config.log.progress and self.leads,
        )
        self.throughput = Throughput(self.config.data.train.batch_size)
        self.pending: collections.deque = collections.deque()
        self.sums = classification.make_sums(parts.logits_of)
        self._open = contextlib.ExitStack()

    def execute(self) -> Result:
        """Trains from the restored step to the last; see `train_and_evaluate`."""
        if self.start_step:
            for line in resume.refuse_other_run(self.workdir, self.parts):
                self.progress.say(line)
        if self._finished() and self._evaluated():
            return self._already_finished()
        self.progress.say(self._introduction())
        if not self.start_step and (note := advice.few_images(self.parts)):
            self.progress.say(note)
        self.state = self._first_state()
        self._open_writers()
        if self._evaluation_due() and not self._evaluated():
            self._evaluate()
        batches = self.parts.inputs.train_batches(self.step)
        with StopRequest() as stop, contextlib.closing(batches), self._saves_on_error():
            while not self._finished() and not stop.requested:
                self._advance(batches)
                if self._checkpoint_due():
                    self._save()
                if self._evaluation_due():
                    self._evaluate()
            if stop.requested:
                self._save()
        return self._ended()

    def close(self) -> None:
        """Waits for the last save and closes the writers, whatever fails."""
        self._open.callback(self.progress.close)
        self._open.close()

    def _first_state(self) -> TrainState:
        parts, abstract = self.parts, self.parts.state
        if not self.start_step:
            self.progress.say("initialising the weights …")
            return create_state(parts.init, parts.optimizer, abstract, self.config.seed)
        self.progress.say(f"going on from the checkpoint of step {self.start_step}")
        params, rest = restore(
            self.workdir.checkpoints,
            self.start_step,
            abstract.params,
            abstract.training(),
        )
        state = TrainState(params=params, **rest)
        if abstract.ema_params is None:
            return state
        average = restore_ema(
            self.workdir.checkpoints, self.start_step, abstract.ema_params
        )
        if average is None:
            self.progress.say(
                "the checkpoint has no moving average: it starts at the weights"
            )
            average = jax.tree.map(jnp.copy, params)
        return dataclasses.replace(state, ema_params=average)

    def _open_writers(self) -> None:
        """Only now, with a state at hand, is anything in the workdir changed."""
        self.checkpoints = Checkpoints(
            self.workdir.checkpoints, keep=self.config.checkpoint.keep
        )
        self._open.callback(self.checkpoints.close)
        if not self.leads:
            return
        resume.describe_run(self.workdir, self.parts)
        if self.journal.cut(self.start_step) and not self.start_step:
            self.progress.say(
                "no checkpoint is there to go on from: training starts anew, and the "
                "former journal is kept as metrics.jsonl.before"
            )
        if self.config.log.tensorboard:
            self.tensorboard = TensorBoard(
                self.workdir.tensorboard, restart_step=self.start_step
            )
            self._open.callback(self.tensorboard.close)

    @contextlib.contextmanager
    def _saves_on_error(self) -> Iterator[None]:
        """Unreadable data or a failed evaluation costs the run, not the work so far."""
        try:
            yield
        except TrainingDiverged:
            raise
        except Exception:
            if not any(leaf.is_deleted() for leaf in jax.tree.leaves(self.state)):
                self._save()
            raise

    def _advance(self, batches: Iterator[dict[str, Any]]) -> None:
        """One step; its figures are looked at a little later."""
        began = time.perf_counter()
        batch = next(batches)
        waited = time.perf_counter() - began
        batch = meshes.put_batch(batch, self.parts.mesh)
        if self.step == self.start_step:
            self._compile(batch)
            waited = 0.0
        self.state, figures = self.train_step(self.state, batch)
        self.step += 1
        self.throughput.step(waited)
        self.pending.append((self.step, figures))
        self._settle(_IN_FLIGHT)
        self.progress.advance()

    def _compile(self, batch: dict[str, jax.Array]) -> None:
        """Compiles now, so that the wait is announced and not counted as training."""
        self.progress.say("compiling the training step …")
        began = time.perf_counter()
        self.train_step = self.parts.train_step.lower(self.state, batch).compile()
        self.progress.say(f"compiled in {time.perf_counter() - began:.1f} s")
        self.progress.start()
        self.throughput.restart()

    def _settle(self, in_flight: int) -> None:
        """Looks at the figures of all steps but the newest `in_flight`."""
        while len(self.pending) > in_flight:
            step, figures = self.pending.popleft()
            figures = {
                name: float(value) for name, value in jax.device_get(figures).items()
            }
            passed_over = nonfinite.passed_over(self.parts, step, figures)
            if passed_over.stops:
                raise TrainingDiverged(self._diverged(step, passed_over.reason))
            if passed_over:
                self.progress.say(passed_over.reason)
            elif step % self.config.log.every_steps and step != self.parts.total_steps:
                continue
            row = {"step": step} | figures | self.throughput.report()
            if self.parts.inputs.skipped:
                row["skipped_images"] = len(self.parts.inputs.skipped)
            self._record(row)
            if not passed_over:
                self.progress.show(row)

    def _record(self, row: dict[str, Any]) -> None:
        if self.leads:
            self.journal.write(row)
        if self.tensorboard:
            self.tensorboard.write(row)

    def _save(self) -> None:
        """Starts a save of this step unless it is saved; refuses a diverged state."""
        self._settle(0)
        if self.step == self.saved_step:
            return
        if not math.isfinite(jax.device_get(_norm(self.state.params))):
            reason = "its update left weights that are not finite"
            raise TrainingDiverged(self._diverged(self.step, reason))
        if self.tensorboard:
            self.tensorboard.flush()
        state = self.state
        self.checkpoints.save(
            self.step, state.params, state.training(), state.ema_params
        )
        self.saved_step = self.step

    def _evaluate(self) -> None:
        self._settle(0)
        batches = (
            meshes.put_batch(batch, self.parts.mesh)
            for batch in self.parts.inputs.eval_batches()
        )
        figures = classification.evaluate(self.sums, self.state.best_params, batches)
        row = {"step": self.step} | {f"eval/{name}": v for name, v in figures.items()}
        self._record(row)
        self.progress.say(
            f"step {self.step}: {self.config.data.eval.split} accuracy "
            f"{figures['accuracy']:.2%}, loss {figures['loss']:.4f} "
            f"({figures['examples']} images)"
        )
        self.throughput.restart()

    def _finished(self) -> bool:
        return self.step >= self.parts.total_steps

    def _checkpoint_due(self) -> bool:
        every = self.config.checkpoint.every_steps
        return self._finished() or bool(every and self.step % every == 0)

    def _evaluation_due(self) -> bool:
        every = self.config.evals.every_steps
        periodic = bool(every and self.step and self.step % every == 0)
        return self._finished() or periodic

    def _evaluated(self) -> bool:
        row = self.journal.last("eval/accuracy")
        return row is not None and row["step"] == self.step

    def _introduction(self) -> str:
        """What is about to happen, in numbers that can be checked against a recipe."""
        parts, config = self.parts, self.config
        devices = jax.devices()
        batch, processes = config.data.train.batch_size, jax.process_count()
        fields = model_fields(config.model.to_dict())
        model = in_words(config.model.variant, fields)
        return (
            f"{config.data.source}: {parts.inputs.num_examples:,} training images, "
            f"{len(parts.inputs.class_names)} classes; {model}: "
            f"{parts.num_params:,} parameters\n"
            f"batch {batch} ({batch // processes} a process, "
            f"{batch // meshes.batch_devices(parts.mesh)} a device"
            f"{advice.micro_batches(parts)}) on "
            f"{processes} process(es) with {len(devices)} device(s) of kind "
            f"{devices[0].device_kind}; peak learning rate "
            f"{parts.peak_learning_rate:g}, {parts.total_steps:,} steps"
        )

    def _already_finished(self) -> Result:
        self.progress.say(
            f"this run is finished: step {self.step} of "
            f"{self.parts.total_steps} is saved in {self.workdir.path}; raise "
            "schedule.total_steps or total_epochs to train on, or name another workdir"
        )
        return Result(self.step, True, self.journal.last("eval/accuracy"))

    def _ended(self) -> Result:
        self.progress.close()
        skipped = sorted(self.parts.inputs.skipped)
        if skipped:
            more = ", …" if len(skipped) > _SKIPPED_SHOWN else ""
            self.progress.say(
                f"{len(skipped)} unreadable images were skipped: "
                f"{', '.join(skipped[:_SKIPPED_SHOWN])}{more}"
            )
        if not self._finished():
            self.checkpoints.wait()
            self.progress.say(
                f"interrupted: step {self.step} is saved; the same command goes on "
                "from it"
                if self.step
                else "interrupted before the first step; nothing was saved"
            )
        last = self.journal.last("eval/accuracy")
        return Result(self.step, self._finished(), last)

    def _diverged(self, step: int, reason: str) -> str:
        saved = f"checkpoints/{self.saved_step} is the newest checkpoint"
        kept = saved if self.saved_step else "no checkpoint was saved before"
        return (
            f"training diverged at step {step}: {reason}; {kept} in "
            f"{self.workdir.path}. Lower schedule.base_learning_rate, lengthen the "
            "warmup or lower optimizer.clip_norm; train.max_nonfinite_steps="
            f"{self.config.train.max_nonfinite_steps} is how many such steps may be "
            "passed over. The same command then goes on from that checkpoint; should "
            "it diverge again at once, move the checkpoint elsewhere to go on from the "
            "one before, or use another workdir."
        )
