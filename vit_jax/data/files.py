"""Image files, one by one and below a folder."""

import os
from collections.abc import Iterator, Sequence

import numpy as np
from etils import epath

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
)


class FileSource:
    """Images that are files below one folder.

    Paths are one fixed-width array and not a list, since every worker has a copy.

    Args:
      root: the folder; local or gs://.
      paths: the files, relative to `root`.
      labels: [N], positions in `class_names`.
    """

    def __init__(
        self,
        root: os.PathLike,
        paths: list[str],
        labels: list[int],
        class_names: tuple[str, ...],
    ):
        self.class_names = class_names
        self._root = os.fspath(root)
        self._paths = np.array([os.fsencode(path) for path in paths])
        self._labels = np.array(labels, np.int32)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[bytes, int, str]:
        name = self.name(index)
        return epath.Path(name).read_bytes(), int(self._labels[index]), name

    def name(self, index: int) -> str:
        return os.path.join(self._root, os.fsdecode(self._paths[index].item()))

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
    for path in folder.iterdir():
        if not path.name.startswith(".") and path.is_dir():
            yield path


def _images_below(folder: epath.Path, seen: set[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            for below in _images_below(path, seen):
                yield os.path.join(path.name, below)
        elif path.suffix.lower() in SUFFIXES:
            yield path.name
