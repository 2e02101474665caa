"""A file or folder under a new name first, and then, whole, in its place."""

import contextlib
import os
import uuid
from collections.abc import Iterator

from etils import epath

from vit_jax.convert.files import safetensors_metadata
from vit_jax.convert.workdirs import MODEL

# What a converter puts into a folder: all that `overwrite` may delete.
WRITTEN = "vit_jax_layout"
_OF_OTHERS = {"config.json", "preprocessor_config.json", "model.safetensors"}
_OF_OURS = {MODEL, "classes.txt", "preprocessing.json", "checkpoints"}


def check_place(place: epath.Path, source: str, overwrite: bool) -> None:
    """Nothing, where `place` is free, or is a converter's own and may be replaced.

    Args:
      place: where something is to be written.
      source: what is read for it; "" for nothing on disk.

    Raises:
      FileExistsError: `place` is there and `overwrite` is False.
      ValueError: replacing it would delete what is read, or what no converter wrote.
    """
    if source and _holds(place, source):
        raise ValueError(
            f"{place} holds {source}, which is read; give another DEST, which "
            "--overwrite can't harm."
        )
    if not place.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{place} is there already; --overwrite replaces it.")
    if place.is_dir() and not _is_converted(place):
        raise ValueError(
            f"{place} is a folder that no converter wrote, or has other files in it; "
            "--overwrite doesn't delete it. Give another DEST, or delete it yourself."
        )


@contextlib.contextmanager
def replaced(place: epath.Path) -> Iterator[epath.Path]:
    """A fresh name beside `place`, renamed to it where all goes well.

    What was at `place` stays until then, and comes back where the renaming fails.
    """
    token = uuid.uuid4().hex[:8]
    fresh = place.parent / f".{place.name}.{token}.tmp"
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield fresh
        if not place.is_dir():
            # One step for a file: the old one is never away.
            fresh.replace(place)
            return
        aside = place.parent / f".{place.name}.{token}.old"
        place.rename(aside)
        try:
            fresh.rename(place)
        except BaseException:
            aside.rename(place)
            raise
        aside.rmtree()
    finally:
        _remove(fresh)


def _remove(place: epath.Path) -> None:
    if place.is_dir():
        place.rmtree()
    else:
        place.unlink(missing_ok=True)


def _holds(place: epath.Path, source: str) -> bool:
    """Whether `source` is `place`, or lies in it."""
    if "://" in source or "://" in str(place):
        return f"{source}/".startswith(f"{place}/")
    inner, outer = os.path.realpath(source), os.path.realpath(place)
    return os.path.commonpath([inner, outer]) == outer


def _is_converted(place: epath.Path) -> bool:
    """Whether all in a folder is what a converter writes; an empty one is."""
    names = {entry.name for entry in place.iterdir()}
    if MODEL in names:
        return names <= _OF_OURS
    if not names:
        return True
    if "model.safetensors" not in names or not names <= _OF_OTHERS:
        return False
    return WRITTEN in safetensors_metadata(place / "model.safetensors")
