"""Class ids: their order and shares that keep the classes in proportion."""

import numpy as np

from vit_jax.data.randomness import shuffled


def class_order(names: set[str]) -> tuple[str, ...]:
    """Class names in the order of their ids: by UTF-8 bytes, the same on any system.

    Raises:
      ValueError: a name has a line break, which the list of a run's classes can't hold.
    """
    for name in names:
        if name.splitlines() != [name]:
            raise ValueError(f"class {name!r} must be one line of text; rename it.")
    return tuple(sorted(names, key=lambda name: name.encode()))


def balanced_order(labels: np.ndarray, seed: int) -> np.ndarray:
    """All indices of `labels` in an order whose every stretch holds each class in
    proportion, int64 [len(labels)].

    Within a class the order is drawn by `seed`; the r-th of a class's c examples stands
    at (r + 1/2) / c of the whole.
    """
    places = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        ranks = shuffled(seed, np.arange(len(members)), len(members))
        places[members] = (ranks + 0.5) / len(members)
    return np.lexsort((labels, places))
