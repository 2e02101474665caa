"""Images and targets as the training step takes them, on the device."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from vit_jax.layers.normalize import normalize


def prepare(
    batch: Mapping[str, jax.Array],
    key: jax.Array,
    *,
    num_classes: int,
    preprocessing: Mapping[str, Any],
    label_smoothing: float,
    dtype: jnp.dtype,
) -> tuple[jax.Array, jax.Array]:
    """(images [B, Y, X, C] of `dtype`, targets float32 [B, V]) from a uint8 batch.

    Args:
      batch: "image" uint8 [B, Y, X, C] and "label" [B].
      key: of the step.
      num_classes: V.
      preprocessing: has "mean" and "std" of each channel.
      label_smoothing: share of a target spread over all classes.
    """
    images = normalize(
        batch["image"], preprocessing["mean"], preprocessing["std"], dtype
    )
    targets = jax.nn.one_hot(batch["label"], num_classes, dtype=jnp.float32)
    return images, targets * (1 - label_smoothing) + label_smoothing / num_classes
