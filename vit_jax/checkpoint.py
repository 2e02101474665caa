"""Orbax checkpoints of a run: saved while training goes on, restored onto any mesh.

A step's folder holds two items: `params`, the weights alone, and `training`, all else
that an exact continuation needs. So weights are read without knowing the optimizer.
Where a moving average of the weights is kept, it is a third, `ema_params`.
"""

import os
import uuid
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from vit_jax import trees

# Orbax writes this file into a step's folder when all of the step is on disk. (Where
# folders can't be renamed, as on gs://, the folder itself is there from the start.)
_COMPLETE = "commit_success.txt"
_NOT_DAMAGE = (PermissionError, MemoryError, jax.errors.JaxRuntimeError)
_CONTENT = {
    "params": "parameters",
    "training": "optimizer state",
    "ema_params": "moving average",
}


class Checkpoints:
    """The checkpoints in one folder, of which the newest `keep` stay."""

    def __init__(self, directory: str | os.PathLike, *, keep: int):
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep, enable_async_checkpointing=True
        )
        self.directory = epath.Path(directory)
        _set_incomplete_aside(self.directory)
        self._manager = ocp.CheckpointManager(self.directory, options=options)

    def save(
        self, step: int, params: Any, training: Any, ema_params: Any = None
    ) -> None:
        """Starts a save and returns; an earlier save that failed raises here."""
        trees = {"params": params, "training": training, "ema_params": ema_params}
        items = {
            name: ocp.args.StandardSave(tree)
            for name, tree in trees.items()
            if tree is not None
        }
        self._manager.save(step, args=ocp.args.Composite(**items), force=True)

    def wait(self) -> None:
        """Returns when the last save is on disk; raises if it failed."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits for the last save and frees what Orbax holds."""
        self._manager.close()


def complete_steps(directory: str | os.PathLike) -> list[int]:
    """Steps whose checkpoint is whole on disk, ascending; [] where there is none."""
    directory = epath.Path(directory)
    if not directory.exists():
        return []
    return sorted(
        int(folder.name)
        for folder in directory.iterdir()
        if _is_step(folder) and _is_complete(folder)
    )


def restore(
    directory: str | os.PathLike, step: int, params: Any, training: Any
) -> tuple[Any, Any]:
    """(params, training) of a step, placed as the abstract trees say.

    Args:
      directory: a run's `checkpoints/`.
      step: one that `complete_steps` lists.
      params: tree of `jax.ShapeDtypeStruct` with shardings.
      training: the same for the rest.

    Raises:
      ValueError: a file of the step is damaged, or the trees differ.
    """
    folder = epath.Path(directory) / str(step)
    weights = _restore(folder / "params", params)
    return weights, _restore(folder / "training", training)


def restore_ema(directory: str | os.PathLike, step: int, params: Any) -> Any:
    """The weights' moving average of a step, as `restore`; None where it has none."""
    folder = epath.Path(directory) / str(step) / "ema_params"
    return _restore(folder, params) if folder.exists() else None


def restore_params(
    directory: str | os.PathLike, params: Any, *, ema: bool = True
) -> tuple[int, Any]:
    """(step, weights) of the newest checkpoint; the optimizer is not read.

    Args:
      directory: a run's `checkpoints/`.
      ema: whether to read the weights' moving average where there is one.
      params: tree of `jax.ShapeDtypeStruct`; without shardings, all goes to the first
        device (never to where it was saved from, which may not exist here).

    Raises:
      FileNotFoundError: there is no complete checkpoint.
      ValueError: it is damaged or holds another model's weights.
    """
    steps = complete_steps(directory)
    if not steps:
        raise FileNotFoundError(
            f"{directory} holds no complete checkpoint; train until one is saved "
            "(checkpoint.every_steps)."
        )
    folder = epath.Path(directory) / str(steps[-1])
    first = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    placed = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=leaf.sharding or first
        ),
        params,
    )
    average = ema and (folder / "ema_params").exists()
    return steps[-1], _restore(folder / ("ema_params" if average else "params"), placed)


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
            folder.rename(
                directory / f"{folder.name}.incomplete-{uuid.uuid4().hex[:8]}"
            )


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
            raise ValueError(_damaged(folder, error)) from error


def _refuse_other_tree(folder: epath.Path, abstract: Any) -> None:
    """Compares names and shapes first, so that a mismatch isn't called damage."""
    with ocp.StandardCheckpointer() as checkpointer:
        try:
            found = checkpointer.metadata(folder).item_metadata
        except _NOT_DAMAGE:
            raise
        except Exception as error:
            raise ValueError(_damaged(folder, error)) from error
    if found is None:
        raise ValueError(_damaged(folder, ValueError("its tree of names is missing")))
    stored = _shapes(found.tree)
    wanted = _shapes(abstract)
    differences = [
        f"{name}: {stored.get(name, 'absent')} in the checkpoint, "
        f"{wanted.get(name, 'absent')} in this run"
        for name in sorted(stored.keys() | wanted.keys())
        if stored.get(name) != wanted.get(name)
    ]
    if differences:
        shown = "\n  ".join(differences[:5])
        raise ValueError(
            f"checkpoint {folder} holds another {_CONTENT[folder.name]} than this "
            f"run's ({len(differences)} differ):\n  {shown}\n"
            "Use the config that trained it, or another workdir."
        )


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """'/'-joined path -> shape; None and empty containers have no leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {trees.path_name(path): tuple(leaf.shape) for path, leaf in leaves}


def _damaged(folder: epath.Path, error: Exception) -> str:
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    step = folder.parent
    earlier = [n for n in complete_steps(step.parent) if n < int(step.name)]
    way_out = (
        f"Move this folder elsewhere to go on from step {earlier[-1]}."
        if earlier
        else "There is no earlier one: bring it back from a copy, or start anew in "
        "another workdir."
    )
    return (
        f"checkpoint {step} is damaged: its {folder.name} can't be read ({reason}). "
        f"{way_out}"
    )
