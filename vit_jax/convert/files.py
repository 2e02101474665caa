"""Files of named arrays: NumPy, safetensors and PyTorch, told by their content."""

import dataclasses
import io
import json
import os
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from etils import epath

BFLOAT16 = np.dtype(jnp.bfloat16)

_SAFETENSORS = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": BFLOAT16,
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
# Where training code keeps the weights in what it saves.
_WRAPPERS = ("state_dict", "model", "model_state_dict", "module")
_KINDS = "a NumPy .npz, a safetensors or a PyTorch file"


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a file holds.

    Args:
      kind: "npz", "safetensors" or "torch".
      arrays: name -> array.
      metadata: texts beside the arrays; safetensors alone has them.
    """

    kind: str
    arrays: dict[str, np.ndarray]
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)


def read_arrays(path: str | os.PathLike) -> Stored:
    """The named arrays of a file, whatever its suffix says.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is none of the known kinds, damaged, or a PyTorch file where
        PyTorch is not installed.
    """
    file = epath.Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{path} is not there; it must be {_KINDS}.")
    content = file.read_bytes()
    kind = _kind_of(content)
    if kind is None:
        raise ValueError(
            f"{path} is not {_KINDS}; it starts with {bytes(content[:8])!r}. Give a "
            "file of these kinds, or a folder."
        )
    try:
        return _READERS[kind](content)
    except _Refused:
        raise
    # Each reader has its own errors for a file that was cut short.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise ValueError(
            f"{path} can't be read as {kind} ({reason}); get it again."
        ) from error


class _Refused(ValueError):
    """A file that is whole, but not to be read."""


def _kind_of(content: bytes) -> str | None:
    if content[:4] == b"PK\x03\x04":
        # The first entry's name, which a file that was cut short has too.
        end = 30 + int.from_bytes(content[26:28], "little")
        return "npz" if content[30:end].endswith(b".npy") else "torch"
    length = int.from_bytes(content[:8], "little")
    if content[8:9] == b"{" and length < 10**8:
        return "safetensors"
    # PyTorch before 1.6 wrote a bare pickle that starts with a magic number.
    return "torch" if content[:2] in (b"\x80\x02", b"\x80\x04") else None


def _read_npz(content: bytes) -> Stored:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return Stored("npz", {name: _typed(archive[name]) for name in archive.files})


def _typed(array: np.ndarray) -> np.ndarray:
    """bfloat16, which NumPy stores as two bytes without a name."""
    return array.view(BFLOAT16) if array.dtype == np.dtype("V2") else array


def _read_safetensors(content: bytes) -> Stored:
    from safetensors import deserialize

    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    arrays = {
        name: np.frombuffer(tensor["data"], _SAFETENSORS[tensor["dtype"]]).reshape(
            tensor["shape"]
        )
        for name, tensor in deserialize(content)
    }
    return Stored("safetensors", arrays, header.get("__metadata__", {}))


def _read_torch(content: bytes) -> Stored:
    try:
        import torch
    except ImportError as error:
        raise _Refused(
            "this is a PyTorch file, and PyTorch is not installed; install "
            "vit_jax[torch], or convert it to safetensors elsewhere."
        ) from error
    import argparse

    # Published training checkpoints hold their flags, which are harmless.
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return Stored("torch", {k: _from_torch(v) for k, v in _state_dict(saved).items()})


def _state_dict(saved: Any) -> dict[str, Any]:
    """Name -> tensor, out of its wrappers."""
    while isinstance(saved, Mapping):
        inner = [key for key in _WRAPPERS if isinstance(saved.get(key), Mapping)]
        if not inner:
            break
        saved = saved[inner[0]]
    if not isinstance(saved, Mapping) or not saved:
        raise _Refused(
            f"the PyTorch file holds {type(saved).__name__}, not a state dict; save "
            "model.state_dict()."
        )
    others = [key for key, value in saved.items() if not hasattr(value, "numpy")]
    if others:
        raise _Refused(
            f"the PyTorch file's entries {', '.join(map(str, others[:5]))} are no "
            f"tensors, and none of {', '.join(_WRAPPERS)} holds a state dict; save "
            "model.state_dict()."
        )
    names = [str(name) for name in saved]
    start = "module." if all(n.startswith("module.") for n in names) else ""
    return {str(name).removeprefix(start): value for name, value in saved.items()}


def _from_torch(tensor: Any) -> np.ndarray:
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(BFLOAT16)
    return tensor.numpy()


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz file; bfloat16 lies in it as two-byte voids, as big_vision stores it."""
    output = io.BytesIO()
    np.savez(output, **arrays)
    return output.getvalue()


def safetensors_bytes(
    arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> bytes:
    """A safetensors file."""
    from safetensors.numpy import save

    return save(dict(arrays), metadata=dict(metadata))


def torch_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """A PyTorch file with a state dict that `torch.load(weights_only=True)` reads.

    Raises:
      ValueError: PyTorch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ValueError(
            "writing a PyTorch file needs PyTorch: install vit_jax[torch], or write "
            "DEST.safetensors, which PyTorch code reads too."
        ) from error
    output = io.BytesIO()
    torch.save({name: _to_torch(array) for name, array in arrays.items()}, output)
    return output.getvalue()


def _to_torch(array: np.ndarray) -> Any:
    import torch

    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


_READERS = {
    "npz": _read_npz,
    "safetensors": _read_safetensors,
    "torch": _read_torch,
}
