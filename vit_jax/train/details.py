"""Figures that need each prediction: by class, and by ImageNet-ReaL's labels."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vit_jax.data.sources import Source
from vit_jax.evals import confusion
from vit_jax.evals.real import place, read_real, real_accuracy

_VALIDATION = "ILSVRC2012"


class Details:
    """Makes figures of a set of what was predicted for its examples.

    Args:
      class_names: of the data.
      outputs: V, of the model, which may have more.
      per_class: whether accuracies of classes and their mean are wanted.
      real: ImageNet-ReaL's labels (`evals.real.read_real`), or None.

    Attributes:
      names: V names, one for each output.
      asked: whether any of these figures is wanted.
    """

    def __init__(
        self,
        class_names: tuple[str, ...],
        outputs: int,
        *,
        per_class: bool,
        real: Sequence[frozenset[int]] | None,
    ):
        self.names = class_labels(class_names, outputs)
        self._per_class = per_class
        self._real = real
        self.asked = per_class or real is not None

    def check(self, source: Source) -> None:
        """Raises ValueError where ReaL labels are given for other images than these."""
        if self._real is not None:
            place(example_names(source, [0])[0], len(self._real))

    def of(
        self,
        found: dict[str, np.ndarray],
        source: Source,
        *,
        main: bool,
    ) -> tuple[dict[str, Any], np.ndarray]:
        """(figures, confusion matrix [V, V]) of a set.

        Args:
          found: of `evals.confusion.Predictions`.
          source: the examples; read for ReaL labels alone.
          main: whether the set must have ReaL labels, where those are given; another
            gets that figure if it is of ImageNet's validation images.

        Raises:
          ValueError: an example has no ReaL label's place.
        """
        matrix = confusion.confusion_matrix(
            found["label"], found["predicted"], len(self.names)
        )
        figures: dict[str, Any] = {}
        if self._per_class:
            rows = confusion.per_class(matrix, self.names)
            rows = [row for row in rows if row["examples"]]
            rates = [row["accuracy"] for row in rows]
            figures["mean_class_accuracy"] = float(np.mean(rates))
            figures["per_class"] = rows
        if self._real is not None:
            examples = example_names(source, found["index"].tolist())
            if main or _VALIDATION in examples[0]:
                figures |= real_accuracy(self._real, examples, found["predicted"])
        return figures, matrix


def real_labels(config: ConfigDict) -> list[frozenset[int]] | None:
    """ImageNet-ReaL's labels, where evals.real names their file.

    Raises:
      FileNotFoundError: it is not there.
      ValueError: it is something else, or nothing is evaluated.
    """
    file = config.evals.real
    if not file:
        return None
    if not config.data.eval.split:
        raise ValueError(
            f"evals.real={file} needs data.eval.split: without it nothing is evaluated."
        )
    try:
        return read_real(file)
    except (ValueError, FileNotFoundError) as error:
        raise type(error)(f"evals.real={file}: {error}") from error


def class_labels(class_names: tuple[str, ...], outputs: int) -> tuple[str, ...]:
    """A name for each output of a model, which may have more than its data classes."""
    rest = range(len(class_names), outputs)
    return (*class_names, *(f"class {number}" for number in rest))


def example_names(source: Source, indices: Iterable[int]) -> list[str]:
    """Names of examples that hold their files' names; read where only that tells."""
    names = []
    for index in indices:
        name = source.name(index)
        names.append(name if _VALIDATION in name else source[index][2])
    return names
