"""Reading tar files where they lie, and naming the one that is damaged."""

import contextlib
import gzip
import shutil
import struct
import tarfile
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.io.matlab import MatReadError

_DAMAGE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    IndexError,
    TypeError,
    struct.error,
    MatReadError,
)


class TarSource:
    """Image files inside plain tar files, read where they lie.

    Args:
      files: the tar files.
      members: (number of its file, offset, size, label, name) of each image.
    """

    def __init__(
        self,
        files: list[Path],
        members: list[tuple[int, int, int, int, str]],
        class_names: tuple[str, ...],
    ):
        self.class_names = class_names
        self._files = [str(file) for file in files]
        self._places = np.array([member[:3] for member in members], np.int64)
        self._labels = np.array([member[3] for member in members], np.int32)
        self._names = [member[4] for member in members]

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> tuple[bytes, int, str]:
        file, offset, size = self._places[index].tolist()
        with open(self._files[file], "rb") as opened:
            opened.seek(offset)
            data = opened.read(size)
        return data, int(self._labels[index]), self.name(index)

    def name(self, index: int) -> str:
        return self._names[index]

    def labels(self) -> np.ndarray:
        return self._labels


@contextlib.contextmanager
def damage_named(file: Path) -> Iterator[None]:
    """Turns what a damaged archive makes readers raise into one sentence.

    Raises:
      ValueError: the file is damaged, or lacks what its publisher put there.
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{file} is damaged: it lacks {error}.") from error
    except _DAMAGE as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{file} is damaged: {reason}.") from error


def tar_members(file: Path, start: int = 0) -> Iterator[tuple[str, int, int]]:
    """(name, offset, size) of each file in a plain tar that begins at `start`."""
    with open(file, "rb") as opened:
        opened.seek(start)
        with tarfile.open(fileobj=opened, mode="r:") as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, member.offset_data, member.size


def tar_places(tar: Path) -> dict[str, tuple[int, int]]:
    """Name without folder and suffix -> (offset, size) of each file in a plain tar."""
    return {Path(name).stem: (offset, size) for name, offset, size in tar_members(tar)}


def plain_tar(file: Path, scratch: Path) -> Path:
    """Path of a gzipped tar, unzipped once into `scratch`."""
    plain = scratch / f"{file.name}.tar"
    if not plain.exists():
        scratch.mkdir(parents=True, exist_ok=True)
        fresh = scratch / f"{file.name}.{uuid.uuid4().hex}.tmp"
        with (
            damage_named(file),
            gzip.open(file, "rb") as zipped,
            open(fresh, "wb") as output,
        ):
            shutil.copyfileobj(zipped, output, 2**20)
        fresh.replace(plain)
    return plain


def read_text(archive: Path, member: str) -> str:
    """A text file in a tar, gzipped or not."""
    with damage_named(archive), tarfile.open(archive) as tar:
        return tar.extractfile(member).read().decode()
