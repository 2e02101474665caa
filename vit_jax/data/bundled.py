"""Image sets that are in memory as a whole: scikit-learn's bundled digits."""

import numpy as np

from vit_jax.data.randomness import shuffled

_DIGITS_TEST_SIZE = 360
_DIGITS_SPLITS = ("train", "test")


class ArraySource:
    """Images that lie in one array.

    Args:
      images: uint8 [N, Y, X] or [N, Y, X, C].
      labels: [N], positions in `class_names`.
      title: what examples are called in messages, with their number.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        class_names: tuple[str, ...],
        title: str,
    ):
        self.class_names = class_names
        self._images = images
        self._labels = np.asarray(labels, np.int32)
        self._title = title

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int, str]:
        return self._images[index], int(self._labels[index]), self.name(index)

    def name(self, index: int) -> str:
        return f"{self._title} {index}"

    def labels(self) -> np.ndarray:
        return self._labels


def open_digits(split: str) -> ArraySource:
    """scikit-learn's 1,797 handwritten digits, 8x8 grey, in a fixed stratified split of
    1,437 to train and 360 to test.

    Raises:
      ValueError: `split` is neither train nor test.
    """
    if split not in _DIGITS_SPLITS:
        raise ValueError(f"digits has the splits train and test, not {split}.")
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = _digits_order(digits.target)
    chosen = (
        order[:-_DIGITS_TEST_SIZE] if split == "train" else order[-_DIGITS_TEST_SIZE:]
    )
    # Values are 0 to 16.
    images = np.round(digits.images[chosen] * (255 / 16)).astype(np.uint8)
    names = tuple(str(digit) for digit in range(10))
    return ArraySource(images, digits.target[chosen], names, f"digits {split}")


def _digits_order(labels: np.ndarray) -> np.ndarray:
    """The order that the digits' split is cut from, every stretch with the classes in
    proportion. It is a rule of its own, never to be changed: published results stand
    on this split."""
    places = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        ranks = shuffled(0, np.arange(len(members)), len(members))
        places[members] = (ranks + 0.5) / len(members)
    return np.lexsort((labels, places))
