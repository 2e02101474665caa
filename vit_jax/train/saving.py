"""When a run saves, and what a checkpoint holds of its state."""

import dataclasses
import time
from typing import Any

from etils import epath

from vit_jax.checkpoint import Checkpoints
from vit_jax.train.state import TrainState

# Fields that readers of weights want without the rest have an item of their own.
_OWN_ITEMS = ("params", "ema_params")


def items_of(state: TrainState) -> dict[str, Any]:
    """A checkpoint's items: weights by themselves, and `training`, all other fields."""
    fields = {
        field.name: getattr(state, field.name) for field in dataclasses.fields(state)
    }
    own = {name: fields.pop(name) for name in _OWN_ITEMS}
    # An absent item leaves no trace in `training`: a run may begin or end to keep it.
    return {name: item for name, item in own.items() if item is not None} | {
        "training": fields
    }


def state_of(items: dict[str, Any]) -> TrainState:
    """The state that `items_of` took apart."""
    own = {name: item for name, item in items.items() if name != "training"}
    return TrainState(**own, **items["training"])


class Saving:
    """The saves of a run: when they are due, and whether they succeeded.

    Args:
      keep: newest checkpoints that stay.
      keep_every_steps: checkpoints of multiples of it stay for good; 0: none.
      every_steps: optimizer steps between saves; 0: no saves by steps.
      every_minutes: minutes between saves; 0: no saves by time.
      step: the step that is saved already.
    """

    def __init__(
        self,
        directory: epath.Path,
        *,
        keep: int,
        keep_every_steps: int,
        every_steps: int,
        every_minutes: float,
        step: int,
    ):
        self._checkpoints = Checkpoints(
            directory, keep=keep, keep_every_steps=keep_every_steps
        )
        self._periods = [period for period in (every_steps, keep_every_steps) if period]
        self._seconds = 60 * every_minutes
        self._since = time.monotonic()
        self.saved_step = step

    def due(self, step: int) -> bool:
        """Whether `step` is one that is saved whatever the clock says."""
        return any(step % period == 0 for period in self._periods)

    def minutes_passed(self) -> bool:
        """Whether the last save began long enough ago, by this process's clock."""
        return bool(self._seconds) and time.monotonic() - self._since >= self._seconds

    def save(self, step: int, state: TrainState) -> None:
        """Starts a save in the background.

        Raises:
          SaveFailed: this save or the one before could not be written.
        """
        self._checkpoints.save(step, items_of(state))
        self.saved_step = step
        self._since = time.monotonic()

    def check(self) -> None:
        """Raises SaveFailed if the save in the background failed; never waits."""
        self._checkpoints.check()

    def wait(self) -> None:
        """Returns when the last save is on disk; raises SaveFailed if it failed."""
        self._checkpoints.wait()

    def close(self) -> None:
        """Waits for the last save; raises SaveFailed if it failed."""
        self._checkpoints.close()
