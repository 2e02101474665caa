"""Image files, one by one and below a folder."""

import array
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from etils import epath

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
)


class Paths:
    """Paths one after the other in one piece of memory.

    A million strings take twice the memory, and every worker has a copy.
    """

    def __init__(self, paths: Iterable[str] = ()):
        self._bytes = bytearray()
        self._ends = array.array("q")
        self.extend(paths)

    def extend(self, paths: Iterable[str]) -> None:
        """Puts paths behind those that are there."""
        for path in paths:
            self._bytes += os.fsencode(path)
            self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:
        index = range(len(self._ends))[index]
        start = self._ends[index - 1] if index else 0
        return os.fsdecode(bytes(self._bytes[start : self._ends[index]]))


class FileSource:
    """Images that are files below one folder.

    Args:
      root: the folder; local or gs://.
      paths: the files, relative to `root` or absolute.
      labels: [N], positions in `class_names`.
    """

    def __init__(
        self,
        root: os.PathLike,
        paths: Paths,
        labels: Sequence[int] | np.ndarray,
        class_names: tuple[str, ...],
    ):
        self.class_names = class_names
        self._root = os.fspath(root)
        self._paths = paths
        self._labels = np.asarray(labels, np.int32)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[bytes, int, str]:
        name = self.name(index)
        return epath.Path(name).read_bytes(), int(self._labels[index]), name

    def name(self, index: int) -> str:
        return os.path.join(self._root, self._paths[index])

    def labels(self) -> np.ndarray:
        return self._labels


def find_images(paths: Sequence[str | os.PathLike]) -> list[str]:
    """The files that `paths` name; a folder stands for all images below it, sorted.

    Raises:
      FileNotFoundError: nothing is at a path.
      ValueError: a folder holds no image.
    """
    files = []
    for path in map(epath.Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; check the path.")
        if not path.is_dir():
            files.append(os.fspath(path))
            continue
        below = [os.path.join(path, image) for image in images_below(path)]
        if not below:
            raise ValueError(
                f"{path} holds no images; their names must end in "
                f"{' '.join(sorted(SUFFIXES))}."
            )
        files += below
    return list(dict.fromkeys(files))


def images_below(folder: epath.Path) -> list[str]:
    """Paths of all images below `folder`, relative to it, by the bytes of their names.

    Hidden files and folders are passed over; a linked folder is entered once.
    """
    return sorted(_images_below(folder, set()), key=os.fsencode)


def subfolders(folder: epath.Path) -> Iterator[epath.Path]:
    """The folders in `folder` that are not hidden."""
    for name, is_folder in _entries(folder):
        if is_folder:
            yield folder / name


def _images_below(folder: epath.Path, seen: set[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    for name, is_folder in _entries(folder):
        if is_folder:
            for below in _images_below(folder / name, seen):
                yield os.path.join(name, below)
        elif os.path.splitext(name)[1].lower() in SUFFIXES:
            yield name


def _entries(folder: epath.Path) -> Iterator[tuple[str, bool]]:
    """(name, whether it is a folder) of what is in `folder` and not hidden.

    A local folder's listing says which entries are folders; elsewhere each is asked.
    """
    if "://" in os.fspath(folder):
        for path in folder.iterdir():
            if not path.name.startswith("."):
                yield path.name, path.is_dir()
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            # Pipes and devices have names of images too, and never end; a broken link
            # stays, so that reading it says so.
            readable = entry.is_dir() or entry.is_file() or entry.is_symlink()
            if readable and not entry.name.startswith("."):
                yield entry.name, entry.is_dir()
