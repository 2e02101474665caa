"""How a file becomes a model's input, from the description that a run keeps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.data.decode import open_picture
from vit_jax.data.transforms import EvalTransform


def describe(
    transform: EvalTransform,
    *,
    channels: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> dict[str, Any]:
    """All that `preprocess` and normalising need, as JSON values.

    Args:
      mean: of each channel on a scale from 0 to 1, or one number for all.
      std: likewise.
    """
    return {
        "image_size": list(transform.image_size),
        "channels": channels,
        "resize": transform.resize,
        "crop_fraction": transform.crop_fraction,
        "interpolation": transform.interpolation,
        "mean": _per_channel(mean, channels),
        "std": _per_channel(std, channels),
    }


def preprocess(
    image: bytes | np.ndarray, preprocessing: Mapping[str, Any]
) -> np.ndarray:
    """uint8 [Y, X, C] as the model takes it, just as evaluation makes it.

    Args:
      image: the bytes of an image file, or uint8 pixels [Y, X] or [Y, X, C].
      preprocessing: what `describe` gave, read from preprocessing.json.

    Raises:
      UnreadableImage: the bytes can't be decoded.
    """
    transform = EvalTransform(
        image_size=tuple(preprocessing["image_size"]),
        resize=preprocessing["resize"],
        crop_fraction=preprocessing["crop_fraction"],
        interpolation=preprocessing["interpolation"],
    )
    return transform(open_picture(image, preprocessing["channels"]))


def _per_channel(values: tuple[float, ...], channels: int) -> list[float]:
    return list(values) * channels if len(values) == 1 else list(values)
