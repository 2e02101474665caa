"""The training loop: steps, checkpoints, evaluations, in an order that survives kills.

At step k the journal's row comes first, then the checkpoint, then the evaluation. So a
checkpoint never lacks rows of the journal, and an evaluation that fails loses no work.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import optax
from ml_collections import ConfigDict

from vit_jax.checkpoint import SaveFailed, complete_steps
from vit_jax.train import advice, features, messages, resume
from vit_jax.train import mesh as meshes
from vit_jax.train.agreement import Agreement
from vit_jax.train.assemble import Parts, assemble
from vit_jax.train.best import Best
from vit_jax.train.evaluations import Evaluations
from vit_jax.train.interrupt import StopRequest
from vit_jax.train.lock import LockLost, hold_for_all
from vit_jax.train.metrics import Metrics
from vit_jax.train.progress import Progress
from vit_jax.train.restoring import fresh_state, restore_newest
from vit_jax.train.saving import Saving
from vit_jax.train.stages import Stage, stage_after
from vit_jax.train.state import TrainState
from vit_jax.train.steps import IN_FLIGHT, Steps, TrainingDiverged
from vit_jax.workdir import DiskFull, Workdir

_norm = jax.jit(optax.tree.norm)


class _Stopped(Exception):
    """A signal asked the run to stop."""


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
      step: optimizer steps taken.
      finished: whether that is the last one, and it is evaluated.
      evaluation: the last figures, None before the first evaluation.
      stopped_by: number of the signal that stopped the run, 0 if none did.
    """

    step: int
    finished: bool
    evaluation: dict[str, Any] | None
    stopped_by: int = 0


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
        workdir that can't be written, holds another model's run or is in use.
      TrainingDiverged: loss or gradient was not finite in more steps than
        train.max_nonfinite_steps allows; the last good checkpoint stays.
      SaveFailed: a checkpoint could not be written; the earlier ones stay.
      DiskFull: there is no room for the figures; the checkpoints stay.
      LockLost: another run has taken the workdir over, as after minutes of standstill.
    """
    folder = Workdir(workdir)
    resumed = bool(complete_steps(folder.checkpoints))
    if resumed:
        config = resume.with_stored_model(config, folder)
    parts = assemble(config, faults=faults, resumed=resumed)
    with contextlib.ExitStack() as resources:
        stop = resources.enter_context(StopRequest())
        return Run(parts, folder, stop, resources).execute()


class Run:
    """One call of the training command on one workdir.

    Args:
      resources: closes, whatever fails, what the run opens.
    """

    def __init__(
        self,
        parts: Parts,
        workdir: Workdir,
        stop: StopRequest,
        resources: contextlib.ExitStack,
    ):
        self.parts = parts
        self.config = parts.config
        self.workdir = workdir
        self.stop = stop
        self.stopped_by = 0
        self.resources = resources
        # Process 0 speaks and writes for all; checkpoints are written by all.
        self.leads = jax.process_index() == 0
        workdir.create()
        self.hold = hold_for_all(resources, workdir.lock)
        self.metrics = Metrics(
            workdir, tensorboard=self.config.log.tensorboard, writes=self.leads
        )
        self.progress = Progress(
            total=parts.total_steps, enabled=self.config.log.progress and self.leads
        )
        self.evaluations = Evaluations(parts, self.metrics, self.progress)
        self.agree = Agreement(lag=IN_FLIGHT)

    def execute(self) -> Result:
        """Trains from the restored step to the last; see `train_and_evaluate`."""
        saved = max(complete_steps(self.workdir.checkpoints), default=0)
        if saved:
            for line in resume.refuse_other_run(self.workdir, self.parts):
                self.progress.say(line)
        if saved > self.parts.total_steps:
            raise ValueError(
                messages.past_the_end(self.workdir, saved, self.parts.total_steps)
            )
        if saved == self.parts.total_steps and self._nothing_left(saved):
            self.progress.say(
                messages.already_finished(self.workdir, saved, self.parts.total_steps)
            )
            return self._result(saved)
        self.progress.say(messages.introduction(self.parts))
        notes = [advice.large_batch(self.parts)]
        notes += [] if saved else [advice.few_images(self.parts)]
        for note in filter(None, notes):
            self.progress.say(note)
        self._open(*self._first_state(saved))
        with contextlib.suppress(_Stopped), self._saves_on_error():
            self._train()
        return self._ended()

    def _nothing_left(self, saved: int) -> bool:
        if not self.evaluations.done(saved):
            return False
        return not self._best(saved).lacks(self.metrics.last("eval/accuracy"))

    def _best(self, step: int) -> Best:
        return Best(
            self.config.checkpoint,
            self.workdir,
            rows=self.metrics.rows(),
            step=step,
            leads=self.leads,
        )

    def _first_state(self, saved: int) -> tuple[int, TrainState, tuple[int, int]]:
        """(step, state, size of the images that it is for)."""
        if not saved:
            self.progress.say("initialising the weights …")
            for line in self.parts.initial.lines if self.parts.initial else ():
                self.progress.say(line)
            return 0, fresh_state(self.parts), self.parts.stages[0].image_size
        step, state, image_size = restore_newest(
            self.workdir, self.parts, self.progress.say, leads=self.leads
        )
        self.progress.say(f"going on from the checkpoint of step {step}")
        return step, state, image_size

    def _open(self, step: int, state: TrainState, image_size: tuple[int, int]) -> None:
        """Only now, with a state at hand, is anything in the workdir changed."""
        policy = self.config.checkpoint
        self.saving = Saving(
            self.workdir.checkpoints,
            keep=policy.keep,
            keep_every_steps=policy.keep_every_steps,
            every_steps=policy.every_steps,
            every_minutes=policy.every_minutes,
            step=step,
        )
        self.resources.callback(self.saving.close)
        if self.leads:
            resume.describe_run(self.workdir, self.parts)
        self.best = self._best(step)
        if self.metrics.start(step) and not step:
            self.progress.say(messages.starts_anew())
        self.resources.callback(self.metrics.close)
        self.resources.callback(self.progress.close)
        self.steps = Steps(
            self.parts,
            step,
            state,
            image_size,
            self.metrics,
            self.progress,
            self._diverged,
        )

    def _train(self) -> None:
        """All steps, with what is due after each."""
        steps = self.steps
        if self.evaluations.due(steps.step):
            self._evaluate_again()
        train_batches = self._batches()
        while not self._finished():
            stage = stage_after(self.parts.stages, steps.step)
            # What enters may be resized, which can't be undone: a run that stops at
            # the border goes on from the state before. Then comes compiling.
            self._save()
            steps.enter(stage)
            with contextlib.closing(train_batches(steps.step, stage)) as batches:
                self._train_stage(stage, batches)

    def _train_stage(self, stage: Stage, batches: Iterator[dict[str, Any]]) -> None:
        steps = self.steps
        while steps.step < stage.last_step:
            minutes_passed = self._heed()
            steps.advance(batches)
            if self._finished() or minutes_passed or self.saving.due(steps.step):
                self._save()
            if self.evaluations.due(steps.step):
                self._evaluate()

    def _batches(self) -> Callable[[int, Stage], Iterator[dict[str, Any]]]:
        """(step, stage) -> training batches: of images, or of features kept of them."""
        parts = self.parts
        if not self.config.train.cache_features:
            return parts.inputs.train_batches
        self.progress.say(
            f"computing the features of {parts.inputs.num_examples:,} images once …"
        )
        found = features.compute_features(
            self.config, parts.inputs, parts.model, self.steps.state.params, parts.mesh
        )
        return features.cached_batches(
            found, seed=self.config.seed, part=meshes.batch_part(parts.mesh)
        )

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
            row = self.evaluations.run(steps.step, params, self._heed)
            self._keep_if_best(row, params)

    def _keep_if_best(self, row: dict[str, Any], params: Any) -> None:
        if self.best.keep(row, params):
            self.progress.say(self.best.sentence(row))

    def _heed(self) -> bool:
        """Stops the run if any process was told to; whether any finds a save due.

        Raises:
          SaveFailed: the save in the background could not be written.
          LockLost: another run has taken the workdir over.
        """
        self.saving.check()
        signal, minutes_passed, lost = self.agree(
            self.stop.signal, self.saving.minutes_passed(), bool(self.hold.lost_to)
        )
        if lost:
            raise self.hold.error()
        if signal:
            self.stopped_by = signal
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
            if together and self.steps.intact():
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
            raise self._diverged(steps.step, reason)
        self.metrics.flush()
        with steps.throughput.paused():
            self.saving.save(steps.step, steps.state)
        self.agree.forget()

    def _finished(self) -> bool:
        return self.steps.step >= self.parts.total_steps

    def _ended(self) -> Result:
        self.progress.close()
        if self.parts.inputs.skipped:
            self.progress.say(messages.skipped_images(self.parts.inputs.skipped))
        if self.stopped_by:
            self.saving.wait()
            self.progress.say(messages.stopped(self.stopped_by, self.steps.step))
        return self._result(self.steps.step)

    def _result(self, step: int) -> Result:
        return Result(
            step=step,
            finished=not self.stopped_by,
            evaluation=self.metrics.last("eval/accuracy"),
            stopped_by=self.stopped_by,
        )

    def _diverged(self, step: int, reason: str) -> TrainingDiverged:
        saved_step = self.saving.saved_step
        return TrainingDiverged(
            messages.diverged(
                self.workdir,
                step,
                reason,
                saved_step,
                self.config.train.max_nonfinite_steps,
            )
        )
