"""Which steps of a run have a checkpoint, and setting one aside."""

import os
import uuid

from etils import epath

# Orbax writes this file into a step's folder when all of the step is on disk. (Where
# folders can't be renamed, as on gs://, the folder itself is there from the start.)
_COMPLETE = "commit_success.txt"


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


def set_incomplete_aside(directory: epath.Path) -> None:
    """Renames step folders that are not whole; Orbax would take them for the newest.

    Nothing is deleted: the folder may be what a copy lost its last file of.
    """
    if not directory.exists():
        return
    for folder in directory.iterdir():
        if _is_step(folder) and not _is_complete(folder):
            set_aside(directory, int(folder.name), "incomplete")


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


def reason_of(error: Exception) -> str:
    """The first line of what an error says."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _is_step(folder: epath.Path) -> bool:
    return folder.name.isdecimal() and str(int(folder.name)) == folder.name


def _is_complete(folder: epath.Path) -> bool:
    return (folder / _COMPLETE).exists()
