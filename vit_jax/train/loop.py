"""The training loop: how a run begins, goes on step by step, and ends."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from vit_jax.checkpoint import complete_steps
from vit_jax.train import advice, features, messages, resume
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts, assemble
from vit_jax.train.best import Best
from vit_jax.train.course import Course
from vit_jax.train.evaluations import Evaluations
from vit_jax.train.interrupt import StopRequest
from vit_jax.train.lock import hold_for_all
from vit_jax.train.metrics import Metrics
from vit_jax.train.progress import Progress
from vit_jax.train.restoring import fresh_state, restore_newest
from vit_jax.train.saving import Saving
from vit_jax.train.stages import Stage
from vit_jax.train.state import TrainState
from vit_jax.train.steps import Steps, TrainingDiverged
from vit_jax.workdir import Workdir


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
        self.resources = resources
        # Process 0 speaks and writes for all; checkpoints are written by all.
        self.leads = jax.process_index() == 0
        workdir.create()
        self.hold = hold_for_all(resources, workdir.lock)
        self.metrics = Metrics(
            workdir,
            tensorboard=self.config.log.tensorboard,
            writes=self.leads,
            lost=lambda: bool(self.hold.look()),
        )
        self.progress = Progress(
            total=parts.total_steps, enabled=self.config.log.progress and self.leads
        )
        self.evaluations = Evaluations(
            parts, self.metrics, self.progress, workdir if self.leads else None
        )

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
        if not saved:
            said = (advice.empty_classes, advice.few_images, advice.grey_model)
            notes += [note(self.parts) for note in said]
        for note in filter(None, notes):
            self.progress.say(note)
        self._open(*self._first_state(saved))
        return self._ended(self.course.run(self._batches))

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
        best = self._best(step)
        if best.note:
            self.progress.say(best.note)
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
        self.course = Course(
            self.steps,
            self.saving,
            self.evaluations,
            best,
            self.metrics,
            self.progress,
            self.stop,
            self.hold,
        )

    def _batches(self) -> Callable[[int, Stage], Iterator[dict[str, Any]]]:
        """(step, stage) -> training batches: of images, or of features kept of them."""
        parts = self.parts
        if not self.config.train.cache_features:
            return parts.inputs.train_batches
        self.progress.say(
            f"computing the features of {parts.inputs.num_examples:,} images once …"
        )
        found = features.compute_features(
            self.config,
            parts.inputs,
            parts.model,
            self.steps.state.params,
            parts.mesh,
            self.course.heed,
        )
        part = meshes.batch_part(parts.mesh)
        return features.cached_batches(self.config, found, part)

    def _ended(self, stopped_by: int) -> Result:
        self.progress.close()
        if self.parts.inputs.skipped:
            self.progress.say(messages.skipped_images(self.parts.inputs.skipped))
        if stopped_by:
            self.saving.wait()
            self.progress.say(messages.stopped(stopped_by, self.steps.step))
        return self._result(self.steps.step, stopped_by)

    def _result(self, step: int, stopped_by: int = 0) -> Result:
        return Result(
            step=step,
            finished=not stopped_by,
            evaluation=self.metrics.last("eval/accuracy"),
            stopped_by=stopped_by,
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
