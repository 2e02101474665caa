"""What a model sees of an image, at the image's own resolution."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.data.decode import open_picture
from vit_jax.data.preprocess import preprocess
from vit_jax.data.transforms import middle_box

# Pixels of a longer side are more than a picture shows.
_LONGEST = 1024


def full_view(
    image: bytes | np.ndarray, preprocessing: Mapping[str, Any]
) -> np.ndarray:
    """uint8 [Y, X, C]: the part that `preprocess` keeps, with the pixels it had.

    Patches of the model's input lie in the same places, as shares of the sides.

    Args:
      image: the bytes of an image file, or uint8 pixels.
      preprocessing: how it becomes the model's input.

    Raises:
      UnreadableImage: the bytes can't be decoded.
    """
    shape = open_picture(image, preprocessing["channels"]).shape
    high, wide = shape
    if preprocessing["resize"] != "stretch":
        size, share = preprocessing["image_size"], preprocessing["crop_fraction"]
        _, _, high, wide = middle_box(shape, tuple(size), share)
    scale = min(1, _LONGEST / max(high, wide))
    sides = [max(1, round(side * scale)) for side in (high, wide)]
    return preprocess(image, {**preprocessing, "image_size": sides})
