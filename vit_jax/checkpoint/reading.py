"""Restoring checkpoints, whole or the weights alone, onto any mesh."""

import errno
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from vit_jax import trees
from vit_jax.checkpoint.steps import choose_step, complete_steps, reason_of

# Of this process or machine, not of the files: neither damage nor worth a second try.
_OWN = (PermissionError, MemoryError, jax.errors.JaxRuntimeError)
# What storage or the way to it may answer while the files are whole: by number, and by
# the words that TensorStore, fsspec and HTTP put into errors of other types.
_AWAY = (
    errno.EIO,
    errno.ETIMEDOUT,
    errno.ESTALE,
    errno.EAGAIN,
    errno.EBUSY,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EMFILE,
    errno.ENFILE,
)
_AWAY_WORDS = (
    "DEADLINE_EXCEEDED",
    "UNAVAILABLE",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "Input/output error",
    "Stale file handle",
    "timed out",
    "Timeout",
    "Too many open files",
    "Permission denied",
    "Connection re",
    "CURL error",
)
_SECOND_TRY_SECONDS = 5.0
_CONTENT = {
    "params": "other parameters",
    "training": "another optimizer state",
    "ema_params": "another moving average",
}


class StorageAway(RuntimeError):
    """A checkpoint can't be read now, which says nothing about its files."""


class DamagedCheckpoint(ValueError):
    """A checkpoint that counts as complete can't be read."""


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
      StorageAway: storage or network failed, twice.
      ValueError: its trees are not those of `items`.
    """
    folder = epath.Path(directory) / str(step)
    return {name: _restore(folder / name, tree) for name, tree in items.items()}


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
      StorageAway: storage or network failed, twice.
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


def _restore(folder: epath.Path, abstract: Any) -> Any:
    _refuse_other_tree(folder, abstract)
    return _read(folder, lambda checkpointer: checkpointer.restore(folder, abstract))


def _stored_shapes(folder: epath.Path) -> dict[str, tuple[int, ...]]:
    """Name -> shape of what a step's item holds."""
    found = _read(
        folder, lambda checkpointer: checkpointer.metadata(folder).item_metadata
    )
    if found is None:
        raise DamagedCheckpoint(
            _damaged(folder, ValueError("its tree of names is missing"))
        )
    return _shapes(found.tree)


def _read(folder: epath.Path, act: Callable[[ocp.StandardCheckpointer], Any]) -> Any:
    """What `act` gives, tried twice.

    Each process reads by itself and waits for no other, so that one that fails leaves
    none behind.

    Raises:
      StorageAway: storage didn't answer.
      DamagedCheckpoint: it did, with something else than a checkpoint.
    """
    alone = ocp.options.MultiprocessingOptions(
        primary_host=jax.process_index(), active_processes={jax.process_index()}
    )
    with ocp.StandardCheckpointer(multiprocessing_options=alone) as checkpointer:
        try:
            return act(checkpointer)
        except _OWN:
            raise
        except Exception as first:
            if is_away(first):
                time.sleep(_SECOND_TRY_SECONDS)
        try:
            return act(checkpointer)
        except _OWN:
            raise
        # Damage surfaces as whatever the reader that met it raises: JSON and unicode
        # errors, TensorStore's ValueError, a plain Exception.
        except Exception as error:
            if is_away(error):
                raise StorageAway(_away(folder, error)) from error
            raise DamagedCheckpoint(_damaged(folder, error)) from error


def is_away(error: BaseException) -> bool:
    """Whether an error is of storage or network and no sign of damage."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and error.errno in _AWAY:
        return True
    return any(words in str(error) for words in _AWAY_WORDS)


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
        content = _CONTENT.get(folder.name, f"another {folder.name}")
        raise ValueError(
            f"checkpoint {folder} holds {content} than this run's "
            f"({len(differences)} differ):\n  {shown}\n"
            "Use the config that trained it, or another workdir."
        )


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """'/'-joined path -> shape; None and empty containers have no leaves."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {trees.path_name(path): _stored_shape(leaf) for path, leaf in leaves}


def _stored_shape(leaf: Any) -> tuple[int, ...]:
    """As a checkpoint has it: of a typed random key, the numbers that it is made of."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        leaf = jax.eval_shape(jax.random.key_data, leaf)
    return tuple(leaf.shape)


def _away(folder: epath.Path, error: Exception) -> str:
    return (
        f"checkpoint {folder.parent} can't be read now: its {folder.name} gives "
        f"{reason_of(error)}. Nothing is changed: look after the storage, the network "
        "and your rights there, then give the same command again."
    )


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
        f"({reason_of(error)}). {way_out}"
    )
