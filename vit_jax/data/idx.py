"""IDX files, as MNIST and Fashion-MNIST come in."""

import gzip
import struct

import numpy as np
from etils import epath

from vit_jax.data.bundled import ArraySource
from vit_jax.data.labels import class_list

# Split -> how its files' names start.
_PREFIXES = {"train": "train", "test": "t10k"}
_UNSIGNED_BYTE = 0x08
_RANKS = {"images": 3, "labels": 1}


def has_idx(folder: epath.Path) -> bool:
    """Whether the folder holds IDX images of a split."""
    return any(_file(folder, f"{prefix}-images") for prefix in _PREFIXES.values())


def open_idx(folder: epath.Path, split: str) -> ArraySource:
    """train-images-idx3-ubyte with train-labels-idx1-ubyte, or t10k-… for the split
    test, plain or gzipped. Classes are the lines of classes.txt, or numbers.

    Raises:
      ValueError: there is no such split, a file is damaged, or classes.txt lists too
        few classes.
      FileNotFoundError: one of the two files is missing.
    """
    if split not in _PREFIXES:
        raise ValueError(f"{folder} has the splits train and test, not {split}.")
    images, labels = (_read_part(folder, split, part) for part in ("images", "labels"))
    if len(images) != len(labels):
        raise ValueError(
            f"{folder} has {len(images)} images and {len(labels)} labels in {split}."
        )
    names = _class_names(folder / "classes.txt", int(labels.max(initial=0)) + 1)
    return ArraySource(images, labels, names, f"{folder} {split}")


def _class_names(listed: epath.Path, count: int) -> tuple[str, ...]:
    """The lines of the list, or numbers where there is none; `count` or more."""
    if not listed.exists():
        return tuple(str(number) for number in range(count))
    try:
        lines = listed.read_text(encoding="utf-8").rstrip().splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{listed} is no UTF-8 text; save it as UTF-8.") from error
    if len(lines) < count:
        raise ValueError(
            f"{listed} lists {len(lines)} classes and the labels go up to "
            f"{count - 1}; give it a line for each class."
        )
    try:
        return class_list(lines)
    except ValueError as error:
        raise ValueError(f"{listed}: {error}") from error


def read_idx(data: bytes) -> np.ndarray:
    """The uint8 array in an IDX file, gzipped or not.

    Raises:
      ValueError: the bytes are none.
    """
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTE:
        raise ValueError("it is no IDX file of unsigned bytes")
    rank = data[3]
    if len(data) < 4 + 4 * rank:
        raise ValueError("its header is cut off")
    shape = struct.unpack_from(f">{rank}I", data, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * rank)
    if values.size != np.prod(shape):
        raise ValueError(f"it holds {values.size} values, not {shape}")
    return values.reshape(shape)


def _read_part(folder: epath.Path, split: str, part: str) -> np.ndarray:
    file = _file(folder, f"{_PREFIXES[split]}-{part}")
    if file is None:
        raise FileNotFoundError(f"{folder} has no {_PREFIXES[split]}-{part}-idx file.")
    try:
        values = read_idx(file.read_bytes())
        if values.ndim != _RANKS[part]:
            raise ValueError(f"it has {values.ndim} axes, not {_RANKS[part]}")
        return values
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{file} is damaged: {error}.") from error


def _file(folder: epath.Path, start: str) -> epath.Path | None:
    """Both spellings are about: train-images-idx3-ubyte and train-images.idx3-ubyte."""
    rank = 3 if start.endswith("images") else 1
    for dot in "-.":
        for end in ("", ".gz"):
            file = folder / f"{start}{dot}idx{rank}-ubyte{end}"
            if file.exists():
                return file
    return None
