"""The course of a run: its steps and what is due after each, in an order that survives.

At step k the journal's row comes first, then the checkpoint, then the evaluation. So a
checkpoint never lacks rows of the journal, and an evaluation that fails loses no work.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import optax

from vit_jax.checkpoint import SaveFailed
from vit_jax.train.agreement import Agreement
from vit_jax.train.best import Best
from vit_jax.train.evaluations import Evaluations
from vit_jax.train.interrupt import StopRequest
from vit_jax.train.lock import Hold, LockLost
from vit_jax.train.metrics import Metrics
from vit_jax.train.progress import Progress
from vit_jax.train.saving import Saving
from vit_jax.train.stages import Stage, stage_after
from vit_jax.train.steps import IN_FLIGHT, Steps, TrainingDiverged
from vit_jax.workdir import DiskFull

Batches = Iterator[dict[str, Any]]

_norm = jax.jit(optax.tree.norm)


class _Stopped(Exception):
    """A signal asked the run to stop."""


class Course:
    """Takes a run from the step that its state is of to the last one.

    Args:
      steps: the state, and what takes it on.
      saving: when a checkpoint is due.
      evaluations: when figures are due.
      best: gets the weights of the best figures.
      stop: tells of signals.
      hold: tells of another run that took the workdir over.
    """

    def __init__(
        self,
        steps: Steps,
        saving: Saving,
        evaluations: Evaluations,
        best: Best,
        metrics: Metrics,
        progress: Progress,
        stop: StopRequest,
        hold: Hold,
    ):
        self.parts = steps.parts
        self.steps = steps
        self.saving = saving
        self.evaluations = evaluations
        self.best = best
        self.metrics = metrics
        self.progress = progress
        self.stop = stop
        self.hold = hold
        self.agree = Agreement(lag=IN_FLIGHT)
        self._stopped_by = 0
        self._save_error: SaveFailed | None = None

    def run(self, batches_of: Callable[[], Callable[[int, Stage], Batches]]) -> int:
        """All steps that are left; the number of the signal that ended them, or 0.

        Args:
          batches_of: () -> (step, stage) -> training batches; called once, when what
            was missing of the evaluations is made up for.

        Raises:
          TrainingDiverged, SaveFailed, DiskFull, LockLost: see `train_and_evaluate`.
        """
        with contextlib.suppress(_Stopped), self._saves_on_error():
            self._train(batches_of)
        return self._stopped_by

    def _train(self, batches_of) -> None:
        """All steps, with what is due after each."""
        steps = self.steps
        if self.evaluations.due(steps.step):
            self._evaluate_again()
        train_batches = batches_of()
        while not self._finished():
            stage = stage_after(self.parts.stages, steps.step)
            # What enters may be resized, which can't be undone: a run that stops at
            # the border goes on from the state before. Then comes compiling.
            self._save()
            steps.enter(stage)
            with contextlib.closing(train_batches(steps.step, stage)) as batches:
                self._train_stage(stage, batches)

    def _train_stage(self, stage: Stage, batches: Batches) -> None:
        steps = self.steps
        while steps.step < stage.last_step:
            minutes_passed = self.heed()
            steps.advance(batches)
            if self._finished() or minutes_passed or self.saving.due(steps.step):
                self._save()
            if self.evaluations.due(steps.step):
                self._evaluate()

    def _evaluate_again(self) -> None:
        """Makes up for what a kill cut off between a save and the next step."""
        steps = self.steps
        if not self.evaluations.done(steps.step):
            self._evaluate()
            return
        row = self.metrics.last("eval/accuracy")
        if self.best.lacks(row):
            params = self.evaluations.params_of(steps.state, steps.image_size)
            self._keep_if_best(row, params)

    def _evaluate(self) -> None:
        self.steps.settle()
        steps = self.steps
        if not self.evaluations.compiled:
            # A signal meanwhile is answered late, perhaps after the notice is over.
            self._save()
        params = self.evaluations.params_of(steps.state, steps.image_size)
        with steps.throughput.paused():
            row = self.evaluations.run(steps.step, params, self.heed)
            self._keep_if_best(row, params)

    def _keep_if_best(self, row: dict[str, Any], params: Any) -> None:
        if self.best.keep(row, params):
            self.progress.say(self.best.sentence(row))

    def heed(self) -> bool:
        """Stops the run if any process was told to; whether any finds a save due.

        Raises:
          SaveFailed: the save in the background could not be written.
          LockLost: another run has taken the workdir over.
        """
        try:
            self.saving.check()
        except SaveFailed as error:
            # Raised when all know: the others would wait for this process for ever.
            self._save_error = error
        signal, minutes_passed, lost, failed = self.agree(
            self.stop.signal,
            self.saving.minutes_passed(),
            bool(self.hold.look()),
            self._save_error is not None,
        )
        if failed:
            raise self._save_error or SaveFailed(
                "another process could not write its part of a save and says why."
            )
        if lost:
            raise self.hold.error()
        if signal:
            self._stopped_by = signal
            raise _Stopped
        return bool(minutes_passed)

    @contextlib.contextmanager
    def _saves_on_error(self) -> Iterator[None]:
        """Unreadable data or a failed evaluation costs the run, not the work so far."""
        try:
            yield
        except (TrainingDiverged, SaveFailed, DiskFull, LockLost):
            raise
        except Exception as error:
            # All processes stop together. Any other error may be one process's own,
            # and the others would not come to the save.
            together = isinstance(error, _Stopped) or jax.process_count() == 1
            if together and self.steps.intact() and not self.hold.look():
                self._save()
            raise

    def _save(self) -> None:
        """Starts a save of this step unless it is saved; refuses a diverged state."""
        steps = self.steps
        steps.settle()
        if steps.step == self.saving.saved_step:
            return
        if not math.isfinite(jax.device_get(_norm(steps.state.params))):
            reason = "its update left weights that are not finite"
            raise steps.diverged(steps.step, reason)
        self.metrics.flush()
        with steps.throughput.paused():
            self.saving.save(steps.step, steps.state)
        self.agree.forget()

    def _finished(self) -> bool:
        return self.steps.step >= self.parts.total_steps
