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
        self._records = grain.sources.ArrayRecordDataSource(self._files)

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
    if split not in index["splits"]:
        raise ValueError(
            f"{folder} has the splits {', '.join(index['splits'])}, not {split}."
        )
    return RecordSource(folder, split, index)


def read_index(folder: epath.Path) -> dict[str, Any]:
    """What dataset.json says; an empty set where there is none."""
    file = epath.Path(folder) / INDEX
    if not file.exists():
        return {"class_names": [], "splits": {}}
    return json.loads(file.read_text())


def pack(image: bytes, label: int, name: str) -> bytes:
    """One record."""
    encoded = name.encode()[:65535]
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
