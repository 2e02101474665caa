"""Image sets in sharded ArrayRecord files: few large files with random access.

A set is a folder:

    dataset.json                       class names; examples and shards of each split
    SPLIT.labels.npy                   int32 class ids in order, so that nothing is read
    SPLIT-00000-of-00008.array_record  image files as they are, with label and name

A record is the label (int32, little-endian), the length of the name (uint16), the name
and the bytes of the image file.
"""

import io
import json
import os
import struct
import uuid
from collections.abc import Mapping
from typing import Any

import grain
import numpy as np
from etils import epath

from vit_jax.data.labels import class_list

INDEX = "dataset.json"

_COUNTS = ("examples", "shards")
_HEADER = struct.Struct("<iH")


class RecordSource:
    """A split of such a set."""

    def __init__(self, folder: os.PathLike, split: str, index: Mapping[str, Any]):
        self.class_names = class_list(index["class_names"])
        shards = index["splits"][split]["shards"]
        self._files = [
            os.fspath(epath.Path(folder) / shard_name(split, number, shards))
            for number in range(shards)
        ]
        labels = epath.Path(folder) / f"{split}.labels.npy"
        self._labels = np.load(io.BytesIO(labels.read_bytes()), allow_pickle=False)
        self._title = f"{folder} {split}"
        self._records = _open_shards(self._files)
        counts = {
            str(epath.Path(folder) / INDEX): index["splits"][split]["examples"],
            str(labels): len(self._labels),
            f"the shards of {split}": len(self._records),
        }
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{count} in {where}" for where, count in counts.items())
            raise ValueError(
                f"{folder} is damaged: the numbers of examples differ: {told}; prepare "
                "it again."
            )

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[bytes, int, str]:
        image, label, name = unpack(self._records[index])
        return image, label, f"{self.name(index)} ({name})"

    def name(self, index: int) -> str:
        return f"{self._title} {index}"

    def labels(self) -> np.ndarray:
        return self._labels


def open_records(folder: epath.Path, split: str) -> RecordSource:
    """A split of a set that `vit_jax data prepare` made.

    Raises:
      ValueError: it has no such split.
    """
    index = read_index(folder)
    if not index["splits"]:
        raise ValueError(
            f"{folder} is not finished; give the `vit_jax data prepare` command again."
        )
    if split not in index["splits"]:
        raise ValueError(
            f"{folder} has the splits {', '.join(index['splits'])}, not {split}."
        )
    return RecordSource(folder, split, index)


def read_index(folder: epath.Path) -> dict[str, Any]:
    """What dataset.json says; an empty set where there is none.

    Raises:
      ValueError: it is damaged.
    """
    file = epath.Path(folder) / INDEX
    if not file.exists():
        return {"class_names": [], "splits": {}}
    try:
        index = json.loads(file.read_text())
        splits = index["splits"].values()
        sound = isinstance(index["class_names"], list) and all(
            isinstance(split[key], int) for split in splits for key in _COUNTS
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise ValueError(
            f"{file} is damaged; it must hold class_names and splits. Prepare the set "
            "again into another folder."
        )
    return index


def count_records(file: os.PathLike) -> int:
    """How many examples a shard holds.

    Raises:
      ValueError: it is damaged.
    """
    return len(_open_shards([os.fspath(file)]))


def _open_shards(files: list[str]) -> Any:
    try:
        return grain.sources.ArrayRecordDataSource(files)
    # The reader raises whatever its C++ part met, often without a word.
    except Exception as error:
        raise ValueError(
            f"{files[0]} or a shard beside it is damaged or missing "
            f"({str(error) or type(error).__name__}); prepare the set again."
        ) from error


def pack(image: bytes, label: int, name: str) -> bytes:
    """One record."""
    encoded = os.fsencode(name)[:65535]
    return _HEADER.pack(label, len(encoded)) + encoded + image


def unpack(record: bytes) -> tuple[bytes, int, str]:
    """(image, label, name) of a record."""
    label, length = _HEADER.unpack_from(record)
    start = _HEADER.size + length
    return record[start:], label, record[_HEADER.size : start].decode(errors="ignore")


def shard_name(split: str, number: int, shards: int) -> str:
    """The file of a shard."""
    return f"{split}-{number:05}-of-{shards:05}.array_record"


def write_whole(file: epath.Path, data: bytes) -> None:
    """Writes a file so that a kill leaves the old one or the new one."""
    fresh = file.parent / f"{file.name}.{uuid.uuid4().hex}.tmp"
    fresh.write_bytes(data)
    fresh.replace(file)
