"""Bytes of any image kind to uint8 pixels."""

import io

import numpy as np
from PIL import Image as pillow


class UnreadableImage(ValueError):
    """The bytes are no image that can be decoded."""


def decode(image: bytes | np.ndarray, channels: int) -> np.ndarray:
    """uint8 [Y, X, channels] from an encoded image, or from pixels [Y, X] or [Y, X, C].

    Args:
      channels: 3 for RGB or 1 for grey.

    Raises:
      UnreadableImage: the bytes can't be decoded.
    """
    if isinstance(image, bytes):
        return _decode_bytes(image, channels)
    if image.ndim == 2:
        image = image[..., None]
    if image.shape[-1] == channels:
        return image
    if image.shape[-1] == 1:
        return np.repeat(image, channels, axis=-1)
    grey = pillow.fromarray(image).convert("L")
    return np.asarray(grey)[..., None]


def _decode_bytes(data: bytes, channels: int) -> np.ndarray:
    try:
        with pillow.open(io.BytesIO(data)) as opened:
            pixels = np.asarray(opened.convert("RGB" if channels == 3 else "L"))
    except (OSError, ValueError, SyntaxError) as error:
        raise UnreadableImage(str(error)) from error
    return pixels.reshape(*pixels.shape[:2], channels)
