"""Predictions, confusion matrix and accuracy by class."""

import jax.numpy as jnp
import numpy as np

from vit_jax.evals import classification
from vit_jax.evals.confusion import Predictions, confusion_matrix, per_class


def test_predictions_skip_padding_and_keep_the_order():
    pixels = np.array([2, 0, 1, 1], np.uint8).reshape(4, 1, 1, 1)
    batch = {
        "image": pixels,
        "label": np.array([2, 1, 1, 0]),
        "weight": np.array([1, 1, 1, 0.0]),
        "index": np.arange(4),
    }
    sums = classification.make_sums(
        lambda params, images: jnp.eye(3)[images[:, 0, 0, 0]] * params
    )
    seen = Predictions()
    figures = classification.evaluate(sums, jnp.float32(1), [batch], seen)
    assert figures["examples"] == 3
    found = seen.all()
    np.testing.assert_array_equal(found["label"], [2, 1, 1])
    np.testing.assert_array_equal(found["predicted"], [2, 0, 1])
    np.testing.assert_array_equal(found["index"], [0, 1, 2])
    tied = Predictions()
    classification.evaluate(sums, jnp.float32(0), [batch], tied)
    np.testing.assert_array_equal(tied.all()["predicted"], [0, 0, 0])


def test_rows_are_classes_and_columns_predictions():
    matrix = confusion_matrix(np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0]), 3)
    np.testing.assert_array_equal(matrix, [[1, 1, 0], [1, 2, 0], [0, 0, 0]])
    rows = per_class(matrix, ("a", "b", "c"))
    assert [row["accuracy"] for row in rows] == [0.5, 2 / 3, None]
    assert [row["examples"] for row in rows] == [2, 3, 0]
