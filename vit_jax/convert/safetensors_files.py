"""The safetensors format, an array at a time: neither way holds the file in memory.

Eight bytes with the header's length, the header in JSON, then the arrays' bytes.

Source: https://github.com/huggingface/safetensors, README, "Format".
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import BinaryIO

import jax.numpy as jnp
import numpy as np

TYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(jnp.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in TYPES.items()}
_LONGEST_HEADER = 10**8


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where a file's arrays lie.

    Args:
      entries: name -> (type, shape, first byte after the header).
      metadata: texts beside them.
      start: where the bytes after the header begin.
      size: how many they are.
    """

    entries: dict[str, tuple[np.dtype, tuple[int, ...], int]]
    metadata: dict[str, str]
    start: int
    size: int

    def arrays(self, content: np.ndarray) -> dict[str, np.ndarray]:
        """Name -> array in `content`, the bytes after the header."""
        return {
            name: content[begin : begin + math.prod(shape) * dtype.itemsize]
            .view(np.ndarray)
            .view(dtype)
            .reshape(shape)
            for name, (dtype, shape, begin) in self.entries.items()
        }


def read_layout(opened: BinaryIO) -> Layout:
    """Where the arrays of a file lie, which is then at the first of them.

    Raises:
      ValueError: it is no such file, or was cut short.
    """
    length = int.from_bytes(opened.read(8), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes is none")
    header = json.loads(opened.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    metadata = header.pop("__metadata__", {})
    entries, size = {}, 0
    for name, said in header.items():
        try:
            dtype, shape = TYPES[said["dtype"]], tuple(said["shape"])
            begin, end = said["data_offsets"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its header describes {name} as {said}") from error
        sides = all(isinstance(side, int) and side >= 0 for side in shape)
        if not sides or begin < 0 or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"its header has no place for {name}")
        entries[name], size = (dtype, shape, begin), max(size, end)
    start = 8 + length
    there = opened.seek(0, 2) - start
    if there < size:
        raise ValueError(f"{there} bytes of {size} are there")
    opened.seek(start)
    return Layout(entries, metadata, start, size)


def write(
    opened: BinaryIO, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes a file, an array at a time.

    Raises:
      ValueError: an array has a type that the format lacks.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        if array.dtype not in _NAMES:
            raise ValueError(f"{name} is {array.dtype}, which safetensors can't hold.")
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    # The arrays begin at a multiple of eight, as the format's own writer has it.
    text += b" " * (-len(text) % 8)
    opened.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        opened.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
