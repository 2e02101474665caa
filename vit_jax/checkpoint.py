"""Orbax checkpoints of a run: saved while training goes on, restored onto any mesh.

A step's folder holds items: `params`, the weights alone, and `training`, all else that
an exact continuation needs. So weights are read without knowing the optimizer.
"""

import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from vit_jax import trees
from vit_jax.workdir import means_full

# Orbax writes this file into a step's folder when all of the step is on disk. (Where
# folders can't be renamed, as on gs://, the folder itself is there from the start.)
_COMPLETE = "commit_success.txt"
_NOT_DAMAGE = (PermissionError, MemoryError, jax.errors.JaxRuntimeError)
_CONTENT = {
    "params": "parameters",
    "training": "optimizer state",
    "ema_params": "moving average",
}


class SaveFailed(RuntimeError):
    """A checkpoint could not be written; the earlier ones are whole."""


class DamagedCheckpoint(ValueError):
    """A checkpoint that counts as complete can't be read."""


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
        _set_incomplete_aside(self.directory)
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
        why = "the disk is full" if means_full(error) else _reason(error)
        return (
            f"the checkpoint of step {step} can't be written to {self.directory}: "
            f"{why}; {left}. Mend what is wrong there (room, rights), then give the "
            "same command again."
        )


def complete_steps(directory: str | os.PathLike) -> list[int]:
    """Steps whose checkpoint is whole on disk, ascending; [] where there is none."""
    directory = epath.Path(directory)
    if not directory.is_dir():
        return []
    return sorted(
        int(folder.name)
        for folder in directory.iterdir()
        if _is_step(folder) and _is_complete(folder)
    )


def restore(
    directory: str | os.PathLike, step: int, items: Mapping[str, Any]
) -> dict[str, Any]:
    """The items of a step, placed as the abstract trees say.

    Args:
      directory: a run's `checkpoints/`.
      step: one that `complete_steps` lists.
      items: name -> tree of `jax.ShapeDtypeStruct` with shardings.

    Raises:
      DamagedCheckpoint: a file of the step is damaged.
      ValueError: its trees are not those of `items`.
    """
    folder = epath.Path(directory) / str(step)
    return {name: _restore(folder / name, tree) for name, tree in items.items()}


def has_item(directory: str | os.PathLike, step: int, name: str) -> bool:
    """Whether a step's checkpoint holds the item."""
    return (epath.Path(directory) / str(step) / name).exists()


def set_aside(directory: str | os.PathLike, step: int, reason: str) -> epath.Path:
    """Renames a step's folder, so that it counts no more; returns its new path.

    Args:
      reason: one word, which becomes part of the name.
    """
    folder = epath.Path(directory) / str(step)
    aside = folder.parent / f"{folder.name}.{reason}-{uuid.uuid4().hex[:8]}"
    return folder.rename(aside)


def choose_step(
    latest: str | os.PathLike, best: str | os.PathLike, checkpoint: str | int
) -> tuple[epath.Path, int]:
    """(folder, step) of the checkpoint that a user names.

    Args:
      latest: a run's `checkpoints/`.
      best: its `best/`.
      checkpoint: "latest", "best" or a step.

    Raises:
      FileNotFoundError: there is no such complete checkpoint.
      ValueError: `checkpoint` is none of the three.
    """
    latest, best = epath.Path(latest), epath.Path(best)
    kept, chosen = complete_steps(latest), complete_steps(best)
    if checkpoint == "best":
        if not chosen:
            raise FileNotFoundError(
                f"{best} holds no checkpoint; train with checkpoint.best_metric set, "
                "such as eval/accuracy."
            )
        return best, chosen[-1]
    if not kept:
        raise FileNotFoundError(
            f"{latest} holds no complete checkpoint; train until one is saved "
            "(checkpoint.every_steps)."
        )
    if checkpoint == "latest":
        return latest, kept[-1]
    if not str(checkpoint).isdecimal():
        raise ValueError(f"checkpoint={checkpoint} must be latest, best or a step.")
    step = int(checkpoint)
    if step in kept:
        return latest, step
    if step in chosen:
        return best, step
    raise FileNotFoundError(
        f"{latest} holds no checkpoint of step {step}; there are "
        f"{', '.join(map(str, kept))}."
    )


def stored_shapes(
    directory: str | os.PathLike, step: int
) -> dict[str, tuple[int, ...]]:
    """'/'-joined name -> shape of a checkpoint's weights; their values aren't read.

    Raises:
      ValueError: it is damaged.
    """
    return _stored_shapes(epath.Path(directory) / str(step) / "params")


def restore_params(
    directory: str | os.PathLike,
    params: Any,
    step: int | None = None,
    *,
    ema: bool = True,
) -> tuple[int, Any]:
    """(step, weights) of a checkpoint; the optimizer is not read.

    Args:
      directory: a run's `checkpoints/` or `best/`.
      params: tree of `jax.ShapeDtypeStruct`; without shardings, all goes to the first
        device (never to where it was saved from, which may not exist here).
      step: one that `complete_steps` lists; None: the newest of them.
      ema: whether to read the weights' moving average where there is one.

    Raises:
      FileNotFoundError: there is no complete checkpoint.
      DamagedCheckpoint: a file of it is damaged.
      ValueError: it holds another model's weights.
    """
    if step is None:
        _, step = choose_step(directory, directory, "latest")
    folder = epath.Path(directory) / str(step)
    first = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    placed = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=leaf.sharding or first
        ),
        params,
    )
    average = ema and (folder / "ema_params").exists()
    return step, _restore(folder / ("ema_params" if average else "params"), placed)


def _is_step(folder: epath.Path) -> bool:
    return folder.name.isdecimal() and str(int(folder.name)) == folder.name


def _is_complete(folder: epath.Path) -> bool:
    return (folder / _COMPLETE).exists()


def _set_incomplete_aside(directory: epath.Path) -> None:
    """Renames step folders that are not whole; Orbax would take them for the newest.

    Nothing is deleted: the folder may be what a copy lost its last file of.
    """
    if not directory.exists():
        return
    for folder in directory.iterdir():
        if _is_step(folder) and not _is_complete(folder):
            set_aside(directory, int(folder.name), "incomplete")


def _restore(folder: epath.Path, abstract: Any) -> Any:
    _refuse_other_tree(folder, abstract)
    with ocp.StandardCheckpointer() as checkpointer:
        try:
            return checkpointer.restore(folder, abstract)
        except _NOT_DAMAGE:
            raise
        # Damage surfaces as whatever the reader that met it raises: JSON and unicode
        # errors, TensorStore's ValueError, a plain Exception.
        except Exception as error:
            raise DamagedCheckpoint(_damaged(folder, error)) from error


def _stored_shapes(folder: epath.Path) -> dict[str, tuple[int, ...]]:
    """Name -> shape of what a step's item holds."""
    with ocp.StandardCheckpointer() as checkpointer:
        try:
            found = checkpointer.metadata(folder).item_metadata
        except _NOT_DAMAGE:
            raise
        except Exception as error:
            raise DamagedCheckpoint(_damaged(folder, error)) from error
    if found is None:
        raise DamagedCheckpoint(
            _damaged(folder, ValueError("its tree of names is missing"))
        )
    return _shapes(found.tree)


def _refuse_other_tree(folder: epath.Path, abstract: Any) -> None:
    """Compares names and shapes first, so that a mismatch isn't called damage."""
    stored = _stored_shapes(folder)
    wanted = _shapes(abstract)
    differences = [
        f"{name}: {stored.get(name, 'absent')} in the checkpoint, "
        f"{wanted.get(name, 'absent')} in this run"
        for name in sorted(stored.keys() | wanted.keys())
        if stored.get(name) != wanted.get(name)
    ]
    if differences:
        shown = "\n  ".join(differences[:5])
        content = _CONTENT.get(folder.name, folder.name)
        raise ValueError(
            f"checkpoint {folder} holds another {content} than this "
            f"run's ({len(differences)} differ):\n  {shown}\n"
            "Use the config that trained it, or another workdir."
        )


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """'/'-joined path -> shape; None and empty containers have no leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {trees.path_name(path): tuple(leaf.shape) for path, leaf in leaves}


def _damaged(folder: epath.Path, error: Exception) -> str:
    step = folder.parent
    earlier = [n for n in complete_steps(step.parent) if n < int(step.name)]
    way_out = (
        f"Set checkpoint.on_damage=previous, or move this folder elsewhere, to go on "
        f"from step {earlier[-1]}."
        if earlier
        else "There is no earlier one: bring it back from a copy, or start anew in "
        "another workdir."
    )
    return (
        f"checkpoint {step} is damaged: its {folder.name} can't be read "
        f"({_reason(error)}). {way_out}"
    )


def _reason(error: Exception) -> str:
    """The first line of what an error says."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
