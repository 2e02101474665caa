"""uint8 images as the floats that models take."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp


def normalize(
    images: jax.Array,
    mean: Sequence[float],
    std: Sequence[float],
    dtype: jnp.dtype = jnp.float32,
) -> jax.Array:
    """(images / 255 - mean) / std for uint8 images [..., C].

    Mean and std are of each channel, on a scale from 0 to 1; one half each maps 0 to -1
    and 255 to 1. It runs on the device, so that bytes travel there, not floats.
    """
    scale = 1 / (255 * jnp.asarray(std, jnp.float32))
    offset = jnp.asarray(mean, jnp.float32) / jnp.asarray(std, jnp.float32)
    lead = (1,) * (images.ndim - 1)
    floats = images.astype(jnp.float32) * scale.reshape(*lead, -1)
    return (floats - offset.reshape(*lead, -1)).astype(dtype)
