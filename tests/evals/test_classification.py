"""Evaluation over batches of any size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.evals import classification

CORRECT = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 1])


def logits_of(params, images):
    """Two classes; an image's only pixel says whether class 0 wins."""
    first = images[:, 0, 0, 0].astype(jnp.float32)[:, None] + params
    return jnp.concatenate([first, 0.5 * jnp.ones_like(first)], axis=1)


def batches(size, padding_pixel=1):
    padded = -len(CORRECT) % size
    image = np.concatenate([CORRECT, np.full(padded, padding_pixel)])
    weight = np.concatenate([np.ones(len(CORRECT)), np.zeros(padded)])
    for start in range(0, len(image), size):
        part = slice(start, start + size)
        yield {
            "image": image[part].astype(np.uint8).reshape(-1, 1, 1, 1),
            "label": np.zeros(size, np.int32),
            "weight": weight[part].astype(np.float32),
        }


@pytest.mark.parametrize("size", [1, 3, 4, 7, 10, 16])
def test_every_example_counts_once_whatever_the_batch(size):
    sums = classification.make_sums(logits_of)
    found = classification.evaluate(sums, jnp.float32(0), batches(size))
    assert found["accuracy"] == 0.7
    assert found["examples"] == 10
    margin = np.where(CORRECT, 0.5, -0.5)
    np.testing.assert_allclose(found["loss"], np.log1p(np.exp(-margin)).mean(), 1e-6)


def test_no_example_is_an_error():
    sums = classification.make_sums(logits_of)
    with pytest.raises(ValueError, match="evaluation set is empty"):
        classification.evaluate(sums, jnp.float32(0), [])


def test_top5_and_ties():
    logits = jnp.array([[0.0, 1, 2, 3, 4, 5], [0.0, 0, 0, 0, 0, 0]])
    sums = classification.make_sums(lambda params, images: logits)

    def rate(label, name):
        batch = {
            "image": np.zeros((2, 1, 1, 1), np.uint8),
            "label": np.array(label, np.int32),
            "weight": np.ones(2, np.float32),
        }
        return classification.evaluate(sums, None, [batch])[name]

    assert rate([5, 0], "accuracy") == 1.0
    assert rate([5, 1], "accuracy") == 0.5
    assert rate([1, 4], "top5_accuracy") == 1.0
    assert rate([0, 5], "top5_accuracy") == 0.0


def test_not_a_number_and_unknown_labels_are_never_right():
    logits = jnp.array([[jnp.nan, 0.0], [0.0, 1.0]])
    sums = classification.make_sums(lambda params, images: logits)
    batch = {
        "image": np.zeros((2, 1, 1, 1), np.uint8),
        "label": np.array([0, 7], np.int32),
        "weight": np.ones(2, np.float32),
    }
    assert float(jax.device_get(sums(None, batch))["top1"]) == 0
