"""Files of named arrays, written and read back."""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from etils import epath
from safetensors import SafetensorError
from safetensors.numpy import save, save_file

from vit_jax.convert.files import BFLOAT16, each_array

_PIECE = 2**18  # bytes


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
    if kind == "safetensors":
        _write_safetensors(file, arrays, dict(metadata or {}))
        return
    with file.open("wb") as opened:
        if kind == "npz":
            np.savez(opened, **arrays)
        else:
            _write_torch(opened, arrays)


def compare(file: epath.Path, meant: Mapping[str, np.ndarray]) -> None:
    """Nothing, where a file's arrays are, bit by bit, those that were to be written.

    Raises:
      OSError: they are not; names some.
    """
    differing = set(meant)
    for name, array in each_array(file):
        if name in meant and same(array, meant[name]):
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


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (one, other)]
    # In pieces that a processor's cache holds, together with what comparing makes.
    return all(
        np.array_equal(*(a[start : start + _PIECE] for a in bits))
        for start in range(0, len(bits[0]), _PIECE)
    )


def _write_safetensors(
    file: epath.Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str]
) -> None:
    # The library writes memory as it lies there, whatever the order of an array.
    arrays = {name: np.require(a, requirements="C") for name, a in arrays.items()}
    try:
        if "://" in str(file):
            file.write_bytes(save(arrays, metadata))
        else:
            save_file(arrays, file, metadata)
    except SafetensorError as error:
        raise ValueError(f"safetensors can't hold the arrays: {error}") from error


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
