"""A training run's folder: what lies where, as plain types.

    config.json         every key of the run
    classes.txt         class names, one a line, in the order of the outputs
    preprocessing.json  how an image file becomes the model's input
    data.json           how many examples trained
    metrics.jsonl       one JSON object a line: step and figures
    tensorboard/        the same for TensorBoard
    checkpoints/        newest checkpoints, a folder a step
    best/               the weights with the best figures so far, a folder a step
    best.json           the step and those figures
    run.lock            names the process that trains here (`train/lock.py`)

It is all that predict, evaluate, convert and visualize need. Paths may be gs://.
"""

import contextlib
import errno
import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

from etils import epath

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# What TensorStore and others put into the text of errors that are no OSError.
_FULL_WORDS = ("No space left on device", "Disk quota exceeded", "File too large")


class DiskFull(RuntimeError):
    """A file could not be written for want of room."""


class Workdir:
    """The files of one run below `path`."""

    def __init__(self, path: str | os.PathLike):
        if not str(path):
            raise ValueError("the workdir is empty; name a folder, as in runs/digits.")
        self.path = epath.Path(path)
        if not is_store(path):
            self.path = epath.Path(os.path.abspath(os.path.expanduser(path)))
        self.config = self.path / "config.json"
        self.classes = self.path / "classes.txt"
        self.preprocessing = self.path / "preprocessing.json"
        self.data = self.path / "data.json"
        self.metrics = self.path / "metrics.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.checkpoints = self.path / "checkpoints"
        self.best = self.path / "best"
        self.best_figures = self.path / "best.json"
        self.evaluation = self.path / "evaluation.json"
        self.lock = self.path / "run.lock"

    def create(self) -> None:
        """Makes the folder and proves that files can be written into it.

        Raises:
          ValueError: nothing can be written there; said before any work is done.
        """
        probe = self.path / f".probe-{uuid.uuid4().hex}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise ValueError(
                f"workdir {self.path} can't be written ({_reason(error)}); "
                "name a folder that you may write to."
            ) from error
        except ImportError as error:
            raise ValueError(
                f"workdir {self.path} lies in an object store, for which a package is "
                f"missing ({error}); for gs:// install vit_jax[gcs]."
            ) from error

    def require(self) -> None:
        """Refuses a folder that holds no run.

        Raises:
          FileNotFoundError: the folder or one of its files is missing.
        """
        missing = [
            file.name
            for file in (self.config, self.classes, self.preprocessing)
            if not file.exists()
        ]
        if not self.path.exists():
            raise FileNotFoundError(
                f"{self.path} is not the workdir of a training run: the path does not "
                "exist."
            )
        if missing and self.checkpoints.exists():
            raise FileNotFoundError(
                f"{self.path} holds the checkpoints of a run, and what describes them "
                f"is missing: {', '.join(missing)}. Restore it from a copy. Or train "
                "into an empty workdir with the config that trained them (`vit_jax "
                "config RECIPE` shows a recipe's) until it has begun, and take these "
                "files from there."
            )
        if missing:
            raise FileNotFoundError(
                f"{self.path} is not the workdir of a training run: it lacks "
                f"{', '.join(missing)}; name the --workdir that `vit_jax train` was "
                "given."
            )

    def write_classes(self, names: tuple[str, ...]) -> None:
        """Stores class names in the order of the model's outputs."""
        replace(self.classes, "".join(f"{name}\n" for name in names))

    def read_classes(self) -> tuple[str, ...]:
        """Class names in the order of the model's outputs.

        Raises:
          ValueError: the file is damaged.
        """
        try:
            return tuple(self.classes.read_text().splitlines())
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.classes} is damaged ({error}); restore it from a copy."
            ) from error

    def write_preprocessing(self, preprocessing: dict[str, Any]) -> None:
        """Stores how an image file becomes the model's input."""
        replace(self.preprocessing, json.dumps(preprocessing, indent=2) + "\n")

    def read_preprocessing(self) -> dict[str, Any]:
        """How an image file becomes the model's input."""
        return read_json(self.preprocessing)

    def write_data(self, figures: dict[str, Any]) -> None:
        """Stores what tells the training data from other data of the same classes."""
        replace(self.data, json.dumps(figures, indent=2) + "\n")

    def read_data(self) -> dict[str, Any]:
        """What `write_data` stored; {} where an older run stored nothing.

        Raises:
          ValueError: the file is damaged.
        """
        return read_object(self.data) if self.data.exists() else {}

    def write_best(self, figures: dict[str, Any]) -> None:
        """Stores the step of `best/` and its figures."""
        replace(self.best_figures, json.dumps(figures, indent=2) + "\n")

    def read_best(self) -> dict[str, Any] | None:
        """What `write_best` stored, or None.

        Raises:
          ValueError: the file is damaged.
        """
        return read_object(self.best_figures) if self.best_figures.exists() else None

    def write_evaluation(self, details: dict[str, Any]) -> None:
        """Classes and confusion matrices of the newest evaluation, which replace those
        of the one before."""
        replace(self.evaluation, json.dumps(details) + "\n")

    def write_config(self, text: str) -> None:
        """Stores the run's config, as JSON text."""
        replace(self.config, text + "\n")


@contextlib.contextmanager
def disk_errors(path: os.PathLike) -> Iterator[None]:
    """A context in which running out of room for `path` is said in plain words.

    Raises:
      DiskFull: instead of the error that a full disk or quota raised within.
    """
    try:
        yield
    except Exception as error:
        if not means_full(error):
            raise
        raise DiskFull(
            f"the disk is full: {path} can't be written. What was saved before is "
            "whole. Make room (older runs, checkpoint.keep), then give the same "
            "command again."
        ) from error


def means_full(error: BaseException) -> bool:
    """Whether an error says that a disk or a quota is full."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    return any(words in str(error) for words in _FULL_WORDS)


def is_store(path: os.PathLike) -> bool:
    """Whether `path` lies in an object store, which can't append, rename or lock."""
    return "://" in str(path)


def replace(file: epath.Path, text: str) -> None:
    """Writes a whole file or nothing, on disk: a kill or power leaves the old one.

    Raises:
      DiskFull: there is no room for it.
    """
    if is_store(file):
        # An upload is whole or nothing by itself, and renaming would be two more.
        file.write_text(text)
        return
    fresh = file.parent / f"{file.name}.{uuid.uuid4().hex}.tmp"
    with disk_errors(file):
        fresh.write_text(text)
        sync(fresh)
        fresh.replace(file)
        sync(file.parent)


def sync(path: epath.Path) -> None:
    """Returns when a local file, or a folder's list of names, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(file: epath.Path) -> Any:
    """The JSON value in `file`.

    Raises:
      ValueError: the file is damaged.
    """
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(
            f"{file} is damaged ({error}); restore it from a copy, or train into "
            "another workdir."
        ) from error


def read_object(file: epath.Path) -> dict[str, Any]:
    """The JSON object in `file`.

    Raises:
      ValueError: the file is damaged, or holds another JSON value.
    """
    value = read_json(file)
    if not isinstance(value, dict):
        raise ValueError(
            f"{file} is damaged (it holds no JSON object); restore it from a copy, or "
            "train into another workdir."
        )
    return value


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
