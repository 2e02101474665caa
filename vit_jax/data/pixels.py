"""Between Pillow's images and arrays of pixels, whatever mode the image has."""

import numpy as np
from PIL import Image as pillow


def plain(image: pillow.Image) -> pillow.Image:
    """An image that Pillow converts to RGB or grey by the rules of `decode`.

    Raises:
      ValueError: the pixels are floats, which have no agreed range.
    """
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        return pillow.fromarray((values.clip(0, 65535) / 257 + 0.5).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("float pixels have no agreed range; save it with 8 or 16 bits")
    if image.has_transparency_data:
        white = pillow.new("RGBA", image.size, (255, 255, 255, 255))
        return pillow.alpha_composite(white, image.convert("RGBA"))
    return image


def drafted(image: pillow.Image, shrink: int) -> np.ndarray:
    """uint8 [ceil(Y / shrink), ceil(X / shrink), C], means over squares."""
    if shrink > 1:
        image = image.reduce(shrink)
    return as_array(image)


def as_image(pixels: np.ndarray) -> pillow.Image:
    """A Pillow image of uint8 [Y, X, C]: grey, RGB, or either with alpha."""
    if pixels.shape[-1] == 1:
        return pillow.fromarray(pixels[..., 0])
    return pillow.fromarray(pixels)


def as_array(image: pillow.Image) -> np.ndarray:
    """uint8 [Y, X, C] of a Pillow image."""
    pixels = np.asarray(image)
    return pixels.reshape(*pixels.shape[:2], -1)
