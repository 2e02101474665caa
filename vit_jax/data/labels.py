"""Class ids: their order and shares that keep the classes in proportion."""

from collections.abc import Iterable

import numpy as np

from vit_jax.data.randomness import words


def class_order(names: set[str]) -> tuple[str, ...]:
    """Class names in the order of their ids: by UTF-8 bytes, the same on any system.

    Raises:
      ValueError: a name is not one line.
    """
    return class_list(sorted(names, key=lambda name: name.encode()))


def class_list(names: Iterable[str]) -> tuple[str, ...]:
    """Class names whose order is given, proved to be such.

    Raises:
      ValueError: a name has a line break, which the list of a run's classes can't
        hold, or comes twice.
    """
    names = tuple(names)
    seen = set()
    for name in names:
        if name.splitlines() != [name]:
            raise ValueError(f"class {name!r} must be one line of text; rename it.")
        if name in seen:
            raise ValueError(f"class {name!r} must be listed once; rename one of them.")
        seen.add(name)
    return names


def balanced_order(labels: np.ndarray, seed: int) -> np.ndarray:
    """All indices of `labels` in an order whose every stretch holds each class in
    proportion, int64 [len(labels)].

    Within a class the order is drawn by `seed`, for each class another; the r-th of a
    class's c examples stands at (r + 1/2) / c of the whole.
    """
    labels = np.asarray(labels)
    # A class's number, and below it 32 bits that are drawn: one sort does both.
    keys = (labels.astype(np.uint64) << np.uint64(32)) | words(seed, len(labels))
    by_class = np.argsort(keys, kind="stable")
    sizes = np.bincount(labels)
    ranks = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = (ranks + 0.5) / np.repeat(sizes, sizes)
    # Where places are equal the lower class comes first, as it stands in `by_class`.
    return by_class[np.argsort(places, kind="stable")]
