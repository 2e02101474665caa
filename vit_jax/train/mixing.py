"""Images and targets as the training step takes them, on the device.

All of it is pure and runs inside the jitted step. A batch is mixed with itself moved on
by one example, images and targets alike, so any batch size works, a batch of one stays
as it is, and nothing depends on the number of devices.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from vit_jax.layers.normalize import normalize

_QUANTILES = 4097
_ERASED_AREA = (0.02, 1 / 3)
_ERASED_ASPECT = (0.3, 1 / 0.3)


def prepare(
    batch: Mapping[str, jax.Array],
    key: jax.Array,
    *,
    num_classes: int,
    preprocessing: Mapping[str, Any],
    label_smoothing: float,
    dtype: jnp.dtype,
    mixup: float,
    cutmix: float,
    cutmix_probability: float,
    erasing: float,
) -> tuple[jax.Array, jax.Array]:
    """(images [B, Y, X, C] of `dtype`, targets float32 [B, V]) from a uint8 batch.

    Args:
      batch: "image" uint8 [B, Y, X, C], "label" [B] and "weight" [B]; an example of
        weight 0 is mixed into no other.
      key: of the step.
      num_classes: V.
      preprocessing: has "mean" and "std" of each channel.
      label_smoothing: share of a target spread over all classes.
      mixup: both parameters of the Beta distribution of shares; 0 is off.
      cutmix: likewise.
      cutmix_probability: of CutMix rather than Mixup, where both are on.
      erasing: probability that a rectangle of an image becomes noise.
    """
    choice_key, share_key, place_key, erase_key = jax.random.split(key, 4)
    images = normalize(
        batch["image"], preprocessing["mean"], preprocessing["std"], dtype
    )
    targets = targets_of(batch["label"], num_classes, label_smoothing)
    if erasing:
        images = erase(images, erase_key, erasing)
    if not mixup and not cutmix:
        return images, targets
    alone = jnp.roll(batch["weight"], -1) == 0
    shares = {
        name: beta_share(share_key, value)
        for name, value in (("mixup", mixup), ("cutmix", cutmix))
        if value
    }
    if mixup and cutmix:
        cut = jax.random.bernoulli(choice_key, cutmix_probability)
        share = jnp.where(cut, shares["cutmix"], shares["mixup"])
    else:
        cut = jnp.asarray(bool(cutmix))
        (share,) = shares.values()
    own_BYX = jnp.where(
        cut,
        uncut(place_key, share, images.shape[1:3])[None].astype(jnp.float32),
        jnp.full((1, *images.shape[1:3]), share, jnp.float32),
    )
    own_BYX = jnp.where(alone[:, None, None], 1.0, own_BYX)
    return mix(images, targets, own_BYX)


def targets_of(
    label_B: jax.Array, num_classes: int, label_smoothing: float
) -> jax.Array:
    """float32 [B, V]: 1 at the label, a share of it spread over all classes.

    Source: Szegedy et al. 2016, arXiv 1512.00567, section 7.
    """
    targets = jax.nn.one_hot(label_B, num_classes, dtype=jnp.float32)
    return targets * (1 - label_smoothing) + label_smoothing / num_classes


def beta_share(key: jax.Array, alpha: float) -> jax.Array:
    """A float32 number drawn from the Beta distribution of (`alpha`, `alpha`).

    It is read from a table of quantiles, since the compiler takes seconds for the
    rejection loops of `jax.random.beta`.
    """
    grid = np.linspace(0, 1, _QUANTILES)
    quantiles = scipy.special.betaincinv(alpha, alpha, grid)
    return jnp.interp(
        jax.random.uniform(key), jnp.float32(grid), jnp.float32(quantiles)
    )


def mix(
    images: jax.Array, targets: jax.Array, own_BYX: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Images [B, Y, X, C] and targets [B, V], each mixed with the next of the batch.

    Args:
      own_BYX: what share of each pixel is the image's own; its mean is the target's.
    """
    own_BYXC = own_BYX[..., None]
    following = jnp.roll(images, -1, axis=0).astype(jnp.float32)
    mixed = own_BYXC * images.astype(jnp.float32) + (1 - own_BYXC) * following
    own_B1 = own_BYX.mean(axis=(1, 2))[:, None]
    mixed_targets = own_B1 * targets + (1 - own_B1) * jnp.roll(targets, -1, axis=0)
    return mixed.astype(images.dtype), mixed_targets


def uncut(key: jax.Array, share: jax.Array, shape: tuple[int, int]) -> jax.Array:
    """Where CutMix keeps an image, bool [Y, X]: all but a box of area 1 - `share`.

    The box's centre is uniform and what sticks out of the image is lost.

    Source: Yun et al. 2019, arXiv 1905.04899, section 3.1.
    """
    side = jnp.sqrt(1 - share)
    centre = jax.random.uniform(key, (2,))
    inside = [
        jnp.abs((jnp.arange(size) + 0.5) / size - centre[axis]) < side / 2
        for axis, size in enumerate(shape)
    ]
    return ~(inside[0][:, None] & inside[1][None, :])


def erase(images: jax.Array, key: jax.Array, probability: float) -> jax.Array:
    """Normalised images [B, Y, X, C], in some of which a rectangle is normal noise.

    Its area is uniform from 2 % to a third, its aspect log-uniform from 0.3 to 1 / 0.3.

    Source: Zhong et al. 2020, arXiv 1708.04896, algorithm 1, with timm's values.
    """
    batch_size, rows, columns, _ = images.shape
    draws_key, noise_key = jax.random.split(key)
    chosen_B, area_B, aspect_B, down_B, across_B = jax.random.uniform(
        draws_key, (5, batch_size)
    )
    area_B = _ERASED_AREA[0] + area_B * (_ERASED_AREA[1] - _ERASED_AREA[0])
    low, high = jnp.log(jnp.array(_ERASED_ASPECT))
    aspect_B = jnp.exp(low + aspect_B * (high - low))
    inside_BY = _stretch(jnp.sqrt(area_B * aspect_B), down_B, rows)
    inside_BX = _stretch(jnp.sqrt(area_B / aspect_B), across_B, columns)
    inside_BYX = inside_BY[:, :, None] & inside_BX[:, None, :]
    erased_BYX = inside_BYX & (chosen_B < probability)[:, None, None]
    noise = jax.random.normal(noise_key, images.shape, images.dtype)
    return jnp.where(erased_BYX[..., None], noise, images)


def _stretch(length_B: jax.Array, place_B: jax.Array, size: int) -> jax.Array:
    """Which of `size` pixels lie in a stretch, bool [B, size]; lengths are shares."""
    length_B = jnp.round(jnp.minimum(length_B, 1.0) * size)
    start_B = jnp.floor(place_B * (size - length_B + 1))
    pixels = jnp.arange(size)[None]
    return (pixels >= start_B[:, None]) & (pixels < (start_B + length_B)[:, None])
