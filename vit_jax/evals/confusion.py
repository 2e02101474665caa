"""Accuracy by class and the confusion matrix, from predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


class Predictions:
    """What was predicted for each example of weight 1, on all processes alike."""

    def __init__(self):
        self._rows: dict[str, list[np.ndarray]] = {
            "index": [],
            "label": [],
            "predicted": [],
        }

    def add(self, batch: Mapping[str, Any], predicted_B: jax.Array) -> None:
        """Takes in a batch with "index", "label" and "weight", each [B]."""
        counted = _whole(batch["weight"]) > 0
        for name, values in (batch | {"predicted": predicted_B}).items():
            if name in self._rows:
                self._rows[name].append(_whole(values)[counted])

    def all(self) -> dict[str, np.ndarray]:
        """{"index", "label", "predicted"}, each [N], in the order of the batches.

        Without "index" where the batches have none.
        """
        rows = {name: parts for name, parts in self._rows.items() if parts}
        return {name: np.concatenate(parts) for name, parts in rows.items()}


def _whole(values: Any) -> np.ndarray:
    """An array on the host, whichever processes hold it."""
    if getattr(values, "is_fully_addressable", True):
        return np.asarray(values)
    return np.asarray(multihost_utils.process_allgather(values, tiled=True))


def confusion_matrix(
    labels_N: np.ndarray, predicted_N: np.ndarray, num_classes: int
) -> np.ndarray:
    """Counts [V, V]: row the class, column what was predicted."""
    matrix_VV = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(matrix_VV, (labels_N, predicted_N), 1)
    return matrix_VV


def per_class(
    matrix_VV: np.ndarray, class_names: Sequence[str]
) -> list[dict[str, Any]]:
    """[{"class", "accuracy", "examples"}]; the accuracy of a class without examples is
    None."""
    counts = matrix_VV.sum(axis=1)
    return [
        {
            "class": name,
            "accuracy": float(matrix_VV[k, k] / counts[k]) if counts[k] else None,
            "examples": int(counts[k]),
        }
        for k, name in enumerate(class_names)
    ]
