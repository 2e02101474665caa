"""The steps of a run: each is taken at once, its figures are looked at a bit later."""

import collections
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from vit_jax.train import mesh as meshes
from vit_jax.train import messages, nonfinite
from vit_jax.train.assemble import Parts
from vit_jax.train.metrics import Metrics
from vit_jax.train.progress import Progress, Throughput
from vit_jax.train.restoring import resized
from vit_jax.train.stages import Stage, stage_before
from vit_jax.train.state import TrainState

# Steps that may be under way before the host looks at their figures: enough that the
# device never waits for the host, few enough that a diverged run stops at once.
IN_FLIGHT = 2


class TrainingDiverged(RuntimeError):
    """The loss or the gradient stopped being a number."""


class Steps:
    """The state of a run, and the steps that change it.

    Args:
      step: optimizer steps that `state` has behind it.
      state: what they left; `enter` makes it ready for more.
      image_size: (rows, columns) of the images that `state` is for.
      diverged: (step, reason) -> the error to raise when a figure is no number.
    """

    def __init__(
        self,
        parts: Parts,
        step: int,
        state: TrainState,
        image_size: tuple[int, int],
        metrics: Metrics,
        progress: Progress,
        diverged: Callable[[int, str], TrainingDiverged],
    ):
        self.parts = parts
        self.step = step
        self.state = state
        self.image_size = image_size
        self.throughput = Throughput(stage_before(parts.stages, step).batch_size)
        self._metrics = metrics
        self._progress = progress
        self.diverged = diverged
        self._pending: collections.deque = collections.deque()
        self._train_step = None

    def enter(self, stage: Stage) -> None:
        """Makes ready for the steps of a stage: its image size and its batch."""
        parts = self.parts
        if stage.image_size != self.image_size:
            self.settle()
            self.state = resized(parts, self.state, self.image_size, stage.image_size)
            self.image_size = stage.image_size
        if len(parts.stages) > 1:
            self._progress.say(messages.stage_begins(parts, stage, self.step))
        self.throughput = Throughput(stage.batch_size)
        self._train_step = None

    def advance(self, batches: Iterator[dict[str, Any]]) -> None:
        """Takes one step with the next batch.

        Raises:
          TrainingDiverged: as `settle` says, of an earlier step.
        """
        began = time.perf_counter()
        batch = next(batches)
        waited = time.perf_counter() - began
        batch = meshes.put_batch(batch, self.parts.mesh)
        if self._train_step is None:
            self._compile(batch)
            waited = 0.0
        self.state, figures = self._train_step(self.state, batch)
        self.step += 1
        self._pending.append((self.step, figures, waited))
        self.settle(in_flight=IN_FLIGHT)
        self._progress.advance()

    def settle(self, *, in_flight: int = 0) -> None:
        """Looks at the figures of all steps but the newest `in_flight`.

        Raises:
          TrainingDiverged: more of them were not finite than may be.
        """
        while len(self._pending) > in_flight:
            step, figures, waited = self._pending.popleft()
            figures = {
                name: float(value) for name, value in jax.device_get(figures).items()
            }
            # Only now is it known to be done: steps are begun ahead of the devices.
            self.throughput.step(waited)
            passed_over = nonfinite.passed_over(self.parts, step, figures)
            if passed_over.stops:
                raise self.diverged(step, passed_over.reason)
            if passed_over:
                self._progress.say(passed_over.reason)
            self._report(step, figures, passed_over=bool(passed_over))

    def intact(self) -> bool:
        """Whether the state can be saved: a step that fails may have eaten it."""
        return not any(leaf.is_deleted() for leaf in jax.tree.leaves(self.state))

    def _report(self, step: int, figures: dict[str, Any], *, passed_over: bool) -> None:
        every = self.parts.config.log.every_steps
        due = step % every == 0 or step == self.parts.total_steps
        if not due and not passed_over:
            return
        row = {"step": step} | figures | self.throughput.report()
        if self.parts.inputs.skipped:
            row["skipped_images"] = len(self.parts.inputs.skipped)
        self._metrics.write(row)
        if not passed_over:
            self._progress.show(row)

    def _compile(self, batch: dict[str, jax.Array]) -> None:
        """Compiles now, so that the wait is announced and not counted as training."""
        self._progress.say("compiling the training step …")
        began = time.perf_counter()
        train_step = self.parts.at(self.image_size).train_step
        self._train_step = train_step.lower(self.state, batch).compile()
        self._progress.say(f"compiled in {time.perf_counter() - began:.1f} s")
        self._progress.start(self.step)
        self.throughput.restart()
