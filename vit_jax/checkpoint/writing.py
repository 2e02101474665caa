"""Saving Orbax checkpoints of a run while training goes on, and which of them stay."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import orbax.checkpoint as ocp
from etils import epath

from vit_jax import processes
from vit_jax.checkpoint.steps import complete_steps, reason_of, set_incomplete_aside
from vit_jax.workdir import means_full


class SaveFailed(RuntimeError):
    """A checkpoint could not be written; the earlier ones are whole."""


class Checkpoints:
    """The checkpoints in one folder, of which some stay.

    Args:
      keep: newest ones that stay. An older one is deleted when a newer one is whole.
      keep_every_steps: steps that are multiples of it stay for good; 0: none do.
    """

    def __init__(
        self, directory: str | os.PathLike, *, keep: int, keep_every_steps: int = 0
    ):
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep,
            keep_period=keep_every_steps or None,
            enable_async_checkpointing=True,
        )
        self.directory = epath.Path(directory)
        self._saving: int | None = None
        processes.lead(
            lambda: set_incomplete_aside(self.directory),
            f"{self.directory} could not be made ready.",
        )
        self._manager = ocp.CheckpointManager(self.directory, options=options)

    def save(self, step: int, items: Mapping[str, Any]) -> None:
        """Starts a save and returns as soon as the arrays are copied.

        Args:
          items: name -> tree of arrays.

        Raises:
          SaveFailed: this save, or the one that was under way, could not be written.
        """
        self.wait()
        self._saving = step
        trees_of = {name: ocp.args.StandardSave(tree) for name, tree in items.items()}
        self._guarded(
            lambda: self._manager.save(
                step, args=ocp.args.Composite(**trees_of), force=True
            )
        )

    def check(self) -> None:
        """Raises SaveFailed if the save under way has failed; never waits."""
        if self._saving is not None and not self._manager.is_saving_in_progress():
            self.wait()

    def wait(self) -> None:
        """Returns when the last save is on disk; raises SaveFailed if it failed."""
        if self._saving is not None:
            self._guarded(self._manager.wait_until_finished)
            self._saving = None

    def close(self) -> None:
        """Waits for the last save and frees what Orbax holds; SaveFailed as `wait`."""
        try:
            self.wait()
        finally:
            self._manager.close()

    def _guarded(self, act: Callable[[], Any]) -> None:
        try:
            act()
        except Exception as error:
            step, self._saving = self._saving, None
            raise SaveFailed(self._failed(step, error)) from error

    def _failed(self, step: int, error: Exception) -> str:
        earlier = [known for known in complete_steps(self.directory) if known != step]
        left = (
            f"checkpoints/{earlier[-1]} before it is whole"
            if earlier
            else "there is none before it"
        )
        why = "the disk is full" if means_full(error) else reason_of(error)
        return (
            f"the checkpoint of step {step} can't be written to {self.directory}: "
            f"{why}; {left}. Mend what is wrong there (room, rights), then give the "
            "same command again."
        )
