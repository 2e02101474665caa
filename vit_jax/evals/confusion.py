"""Accuracy by class and the confusion matrix, from predictions."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def make_predictions(
    logits_of: Callable[[Any, jax.Array], jax.Array],
) -> Callable[[Any, jax.Array], jax.Array]:
    """(params, uint8 images) -> likeliest class ids [B], jitted.

    Ties go to the smaller id.
    """

    def predictions(params: Any, images: jax.Array) -> jax.Array:
        return jnp.argmax(logits_of(params, images).astype(jnp.float32), axis=-1)

    return jax.jit(predictions)


def predict_all(
    predictions: Callable[[Any, jax.Array], jax.Array],
    params: Any,
    batches: Iterable[dict[str, Any]],
) -> dict[str, np.ndarray]:
    """{"index", "label", "predicted"}, each [N], of all examples of weight 1."""
    rows: dict[str, list[np.ndarray]] = {"index": [], "label": [], "predicted": []}
    for batch in batches:
        counted = np.asarray(batch["weight"]) > 0
        found = jax.device_get(predictions(params, batch["image"]))
        for name, values in (batch | {"predicted": found}).items():
            if name in rows:
                rows[name].append(np.asarray(values)[counted])
    return {name: np.concatenate(parts) for name, parts in rows.items()}


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
