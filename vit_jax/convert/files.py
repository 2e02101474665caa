"""Files of named arrays, told by their content: how they are read."""

import contextlib
import dataclasses
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import jax.numpy as jnp
import numpy as np
from etils import epath
from safetensors import SafetensorError, safe_open

from vit_jax.convert.mapped import map_npz

BFLOAT16 = np.dtype(jnp.bfloat16)

# Where training code keeps the weights in what it saves.
_WRAPPERS = ("state_dict", "model", "model_state_dict", "module")
_KINDS = "a NumPy .npz, a safetensors or a PyTorch file"
# Beyond so many bytes a file may grow so many times, and no more: zeros pack into next
# to nothing, and a small file must not fill the memory. Weights hardly pack at all.
_FREE_BYTES = 2**28
_MOST_GROWTH = 20


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a file holds.

    Args:
      kind: "npz", "safetensors" or "torch".
      arrays: name -> array; those of a local file may lie in the file still, and are
        read where they are used.
      metadata: texts beside the arrays; safetensors alone has them.
    """

    kind: str
    arrays: dict[str, np.ndarray]
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_private(self) -> bool:
        """Whether nothing else uses the arrays, and writing to them harms no file."""
        return self.kind != "torch"


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
    with file.open("rb") as opened:
        start = opened.read(4096)
    kind = _kind_of(start)
    if kind is None:
        raise ValueError(
            f"{path} is not {_KINDS}; it starts with {bytes(start[:8])!r}. Give a "
            "file of these kinds, or a folder."
        )
    try:
        return _READERS[kind](file)
    except _Refused:
        raise
    # Each reader has its own errors for a file that was cut short.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise ValueError(
            f"{path} can't be read as {kind} ({reason}); delete it and get it again."
        ) from error


def each_array(path: str | os.PathLike) -> Iterator[tuple[str, np.ndarray]]:
    """A file's arrays by name; those of a safetensors file are read one by one."""
    file = epath.Path(path)
    with file.open("rb") as opened:
        kind = _kind_of(opened.read(4096))
    if kind != "safetensors":
        yield from read_arrays(file).arrays.items()
        return
    with _at_hand(file) as local, _safely(local) as opened:
        names = opened.keys()
        for name in names:
            yield name, opened.get_tensor(name)


def safetensors_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The texts in a safetensors file; {} where it is none."""
    try:
        with _at_hand(epath.Path(path)) as local, _safely(local) as opened:
            return opened.metadata() or {}
    except (OSError, SafetensorError):
        return {}


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


def _read_npz(file: epath.Path) -> Stored:
    with file.open("rb") as opened:
        _check_growth(opened)
        if (local := _local(file)) and (mapped := map_npz(local)) is not None:
            return Stored("npz", {name: _typed(a) for name, a in mapped.items()})
        with np.load(opened, allow_pickle=False) as archive:
            return Stored("npz", {name: _typed(archive[name]) for name in archive})


def _check_growth(opened: BinaryIO) -> None:
    """Refuses an archive that unpacks to far more than it is."""
    with zipfile.ZipFile(opened) as archive:
        packed = sum(entry.compress_size for entry in archive.infolist())
        whole = sum(entry.file_size for entry in archive.infolist())
    opened.seek(0)
    if whole > _FREE_BYTES and whole > _MOST_GROWTH * packed:
        raise _Refused(
            f"an archive of {packed} bytes that unpacks to {whole} holds no weights; "
            "get it from where you trust it."
        )


def _typed(array: np.ndarray) -> np.ndarray:
    """bfloat16, which NumPy stores as two bytes without a name."""
    return array.view(BFLOAT16) if array.dtype == np.dtype("V2") else array


def _read_safetensors(file: epath.Path) -> Stored:
    with _at_hand(file) as local, _safely(local) as opened:
        names = opened.keys()
        arrays = {name: opened.get_tensor(name) for name in names}
        return Stored("safetensors", arrays, opened.metadata() or {})


def _safely(file: Path) -> Any:
    # Reading, not mapping: the pages of a whole file would be one more copy of it.
    return safe_open(file, framework="np", backend="pread")


@contextlib.contextmanager
def _at_hand(file: epath.Path) -> Iterator[Path]:
    """The file where the library can open it: itself, or a copy of a remote one."""
    if (local := _local(file)) is not None:
        yield local
        return
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / file.name
        file.copy(copied)
        yield copied


def _local(file: epath.Path) -> Path | None:
    return None if "://" in str(file) else Path(os.fspath(file))


def _read_torch(file: epath.Path) -> Stored:
    try:
        import torch
    except ImportError as error:
        raise _Refused(
            "this is a PyTorch file, and PyTorch is not installed; install "
            "vit_jax[torch], or convert it to safetensors elsewhere."
        ) from error
    import argparse

    local = _local(file)
    with (
        file.open("rb") as opened,
        torch.serialization.safe_globals(
            # Published training checkpoints hold their flags, which are harmless.
            [argparse.Namespace]
        ),
    ):
        # Older files are one pickle, which can't be mapped.
        mapped = local is not None and opened.read(2) == b"PK"
        opened.seek(0)
        saved = torch.load(
            os.fspath(local) if mapped else opened,
            map_location="cpu",
            weights_only=True,
            mmap=True if mapped else None,
        )
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

    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(BFLOAT16)
    return tensor.numpy()


_READERS = {
    "npz": _read_npz,
    "safetensors": _read_safetensors,
    "torch": _read_torch,
}
