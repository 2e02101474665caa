"""Files of named arrays, written an array at a time and read back."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from etils import epath

from vit_jax.convert import safetensors_files
from vit_jax.convert.files import BFLOAT16, read_arrays

_PART = 2**20  # bytes that are read back at a time


def write_arrays(
    file: epath.Path,
    kind: str,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a file.

    Args:
      file: its place.
      kind: "npz" (bfloat16 lies in it as two-byte voids, as big_vision stores it),
        "safetensors", or "torch": a state dict that `torch.load(weights_only=True)`
        reads.
      arrays: name -> array.
      metadata: texts beside them; safetensors alone has them.

    Raises:
      ValueError: PyTorch is not installed, or the kind can't hold an array's type.
    """
    with file.open("wb") as opened:
        if kind == "npz":
            np.savez(opened, **arrays)
        elif kind == "torch":
            _write_torch(opened, arrays)
        else:
            safetensors_files.write(opened, arrays, metadata or {})


def compare(file: epath.Path, meant: Mapping[str, np.ndarray]) -> None:
    """Nothing, where a file's arrays are, bit by bit, those that were to be written.

    Raises:
      OSError: they are not; names some.
    """
    differing = set(meant)
    for name, equal in _each(file, meant):
        if equal:
            differing.discard(name)
        else:
            differing.add(name)
    if differing:
        raise OSError(otherwise(sorted(differing)))


def otherwise(names: Sequence[str]) -> str:
    """What to say of arrays that read back otherwise."""
    return (
        f"what was written reads back otherwise ({', '.join(names[:5])}); "
        "nothing was kept. Is the disk full, or the machine's memory damaged?"
    )


def _each(
    file: epath.Path, meant: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, bool]]:
    """(name, whether it is what was meant) of a file's arrays, one after another.

    What safetensors hold is read in parts, and compared where it was read: a second
    time the weights would be as many bytes again.
    """
    with file.open("rb") as opened:
        start = opened.read(16)
        if start[8:9] != b"{":
            for name, array in read_arrays(file).arrays.items():
                yield name, name in meant and same(array, meant[name])
            return
        opened.seek(0)
        layout = safetensors_files.read_layout(opened)
        for name, (dtype, shape, begin) in layout.entries.items():
            opened.seek(layout.start + begin)
            array = meant.get(name)
            alike = array is not None and (array.dtype, array.shape) == (dtype, shape)
            yield name, alike and _holds(opened, array)


def _holds(opened: BinaryIO, array: np.ndarray) -> bool:
    """Whether an array's bytes follow in a file."""
    there = np.empty(_PART, np.uint8)
    wanted = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for begin in range(0, len(wanted), _PART):
        part = wanted[begin : begin + _PART]
        count = opened.readinto(there[: len(part)])
        if count != len(part) or not np.array_equal(there[:count], part):
            return False
    return True


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (one, other)]
    return bool(np.array_equal(*bits))


def _write_torch(opened: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    try:
        import torch
    except ImportError as error:
        raise ValueError(
            "writing a PyTorch file needs PyTorch: install vit_jax[torch], or write "
            "DEST.safetensors, which PyTorch code reads too."
        ) from error
    torch.save({name: _to_torch(array) for name, array in arrays.items()}, opened)


def _to_torch(array: np.ndarray) -> Any:
    """A tensor in the array's own memory, where that may be shared."""
    import torch

    array = np.require(array, requirements=["C", "W"])
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
