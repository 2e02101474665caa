"""One address, whatever it names, to one kind of source: indexed labelled images."""

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from etils import epath

from vit_jax.data.bundled import open_digits
from vit_jax.data.folders import open_folder
from vit_jax.data.idx import has_idx, open_idx
from vit_jax.data.labels import balanced_order
from vit_jax.data.manifest import SUFFIXES, find_manifest, open_manifest
from vit_jax.data.published import open_tfds
from vit_jax.data.records import INDEX, open_records

Image = bytes | np.ndarray

# Addresses of sets that come with an installed package.
BUNDLED = ("digits",)

_SPLIT = re.compile(r"(?P<name>[\w.\-]+)(\[(?P<low>(\d+%?)?):(?P<high>(\d+%?)?)\])?")


class Source(Protocol):
    """A fixed sequence of labelled images, safe to pickle and to read from threads."""

    class_names: tuple[str, ...]

    def __len__(self) -> int:
        """The number of examples."""

    def __getitem__(self, index: int) -> tuple[Image, int, str]:
        """An example: encoded bytes or uint8 pixels, class id, name.

        Pixels are [Y, X] or [Y, X, C].
        """

    def name(self, index: int) -> str:
        """What to call an example in messages; reads nothing."""

    def labels(self) -> np.ndarray:
        """The class id of every example, int32 [len(self)]."""


class Subset:
    """Some examples of a source, in the order of `indices`."""

    def __init__(self, source: Source, indices: np.ndarray):
        self.class_names = source.class_names
        self._source = source
        self._indices = np.asarray(indices, np.int64)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> tuple[Image, int, str]:
        return self._source[int(self._indices[index])]

    def name(self, index: int) -> str:
        return self._source.name(int(self._indices[index]))

    def labels(self) -> np.ndarray:
        return self._source.labels()[self._indices]


def open_source(
    address: str, split: str, *, class_names: Sequence[str] | None = None
) -> Source:
    """The examples of `split` at `address`.

    Args:
      address: `digits`, `tfds:NAME`, or a path, local or gs://: of a folder of class
        folders, a CSV or JSON-lines manifest or a folder with one for each split, a
        folder that `vit_jax data prepare` made, or one with IDX files.
      split: a name, or a part of one: `train[:98%]`, `train[500:]`. A part is cut from
        an order of the split in which every stretch holds the classes in proportion,
        the same for each run (TFDS: from the order that it was prepared in).
      class_names: the classes of the training split; labels are positions in it. None
        where this is the training split.

    Raises:
      FileNotFoundError: nothing is at `address`.
      ValueError: the split does not exist or is empty, or a class is not in
        `class_names`.
    """
    if address.startswith("tfds:"):
        source = open_tfds(address.removeprefix("tfds:"), split)
    else:
        name, low, high = _parse_split(split)
        source = _part(_open_whole(address, name), low, high)
    if not len(source):
        raise ValueError(f"split {split} of {address} holds no examples; widen it.")
    if class_names is not None:
        source = _with_classes(
            source, tuple(class_names), f"split {split} of {address}"
        )
    return source


def class_balanced_share(source: Source, fraction: float, seed: int) -> Source:
    """A share of `source` with the classes in proportion, drawn by `seed`."""
    count = max(1, round(fraction * len(source)))
    return Subset(source, balanced_order(source.labels(), seed)[:count])


class _Relabelled:
    """A source whose class ids are translated by a table."""

    def __init__(self, source: Source, class_names: tuple[str, ...], table: np.ndarray):
        self.class_names = class_names
        self._source = source
        self._table = table

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[Image, int, str]:
        image, label, name = self._source[index]
        return image, int(self._table[label]), name

    def name(self, index: int) -> str:
        return self._source.name(index)

    def labels(self) -> np.ndarray:
        return self._table[self._source.labels()]


def _open_whole(address: str, split: str) -> Source:
    if address in BUNDLED:
        return open_digits(split)
    path = epath.Path(address).expanduser()
    if not path.exists():
        raise FileNotFoundError(
            f"{address} is neither a file, a folder, digits nor tfds:NAME; "
            "check the path."
        )
    if not path.is_dir():
        return _open_file(path, split)
    if (path / INDEX).exists():
        return open_records(path, split)
    if manifest := find_manifest(path, split):
        return open_manifest(manifest, split, named=split)
    if has_idx(path):
        return open_idx(path, split)
    return open_folder(path, split)


def _open_file(path: epath.Path, split: str) -> Source:
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"{path} is a file and no manifest; name a folder, or a list of images "
            f"whose name ends in {' or '.join(SUFFIXES)}."
        )
    return open_manifest(path, split)


def _parse_split(split: str) -> tuple[str, str, str]:
    """(name, low, high) of "name[low:high]"; missing bounds are empty."""
    match = _SPLIT.fullmatch(split)
    bounds = (match["low"], match["high"]) if match else ()
    shares = [int(b[:-1]) for b in bounds if b and b.endswith("%")]
    if not match or any(share > 100 for share in shares):
        raise ValueError(
            f"split {split!r} must be a name such as train, or a part of one such as "
            "train[:98%] or train[500:], of at most 100 %."
        )
    return match["name"], match["low"] or "", match["high"] or ""


def size_of_part(split: str, size: int) -> int:
    """How many examples `split`, a name or a part of one, has of `size` in the whole.

    Raises:
      ValueError: `split` is no such words.
    """
    _, low, high = _parse_split(split)
    return len(range(size)[_slice(low, high, size)])


def _part(source: Source, low: str, high: str) -> Source:
    if not low and not high:
        return source
    size = len(source)
    bounds = _slice(low, high, size)
    return Subset(source, balanced_order(source.labels(), seed=0)[bounds])


def _slice(low: str, high: str, size: int) -> slice:
    return slice(_bound(low or "0", size), _bound(high or "100%", size))


def _bound(text: str, size: int) -> int:
    if text.endswith("%"):
        return round(int(text[:-1]) / 100 * size)
    return min(int(text), size)


def _with_classes(source: Source, class_names: tuple[str, ...], what: str) -> Source:
    if source.class_names == class_names:
        return source
    ids = {name: number for number, name in enumerate(class_names)}
    unknown = [name for name in source.class_names if name not in ids]
    if unknown:
        raise ValueError(
            f"{what} has classes that the training data lacks: "
            f"{', '.join(unknown[:5])}{', …' if len(unknown) > 5 else ''}; remove them "
            "or train on them."
        )
    table = [ids[name] for name in source.class_names]
    return _Relabelled(source, class_names, np.array(table, np.int32))
