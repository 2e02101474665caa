"""A part of an image at another size: averaged over areas, or sampled quickly."""

import cv2
import numpy as np
from PIL import Image as pillow

from vit_jax.data.decode import Picture
from vit_jax.data.pixels import as_image

# (top, left, height, width) in pixels.
Box = tuple[float, float, float, float]

FILTERS = {
    "bilinear": pillow.Resampling.BILINEAR,
    "bicubic": pillow.Resampling.BICUBIC,
}


def resize(
    image: np.ndarray,
    image_size: tuple[int, int],
    box: Box | None = None,
    interpolation: str = "bilinear",
) -> np.ndarray:
    """`box` (all of the image if None) of uint8 [Y, X, C] at `image_size`, each new
    pixel averaged over the area that it stands for."""
    rows, columns, channels = image.shape
    whole = (0, 0, rows, columns)
    top, left, height, width = box or whole
    if image_size == (rows, columns) and (top, left, height, width) == whole:
        return image
    resized = as_image(image).resize(
        image_size[::-1],
        FILTERS[interpolation],
        box=(left, top, left + width, top + height),
    )
    return np.asarray(resized).reshape(*image_size, channels)


def sampled(picture: Picture, box: Box, image_size: tuple[int, int]) -> np.ndarray:
    """`box` of a picture at `image_size`, uint8 [*image_size, C], for training.

    The picture is decoded at the smallest of 1, 1/2, 1/4, … of its size that holds the
    box with at least `image_size` pixels, the box is moved to whole pixels of that, and
    then read by bilinear interpolation between the nearest two rows and columns: much
    quicker than averaging over areas.
    """
    shrink, rows, columns = drafted_part(picture.shape, box, image_size)
    part = picture.draft(shrink)[rows, columns]
    image = cv2.resize(part, image_size[::-1], interpolation=cv2.INTER_LINEAR)
    return image.reshape(*image_size, part.shape[-1])


def drafted_part(
    shape: tuple[int, int], box: Box, image_size: tuple[int, int]
) -> tuple[int, slice, slice]:
    """(shrink, rows, columns): what `sampled` reads of a picture of `shape`, in pixels
    of the picture at 1 / shrink of its size."""
    top, left, height, width = box
    shrink = 1
    while min(height / image_size[0], width / image_size[1]) >= 2 * shrink:
        shrink *= 2
    rows = _whole(top / shrink, height / shrink, -(-shape[0] // shrink))
    columns = _whole(left / shrink, width / shrink, -(-shape[1] // shrink))
    return shrink, rows, columns


def _whole(start: float, length: float, size: int) -> slice:
    """The stretch of an axis of `size` pixels moved to whole ones, at least one."""
    first = min(round(start), size - 1)
    return slice(first, min(max(round(start + length), first + 1), size))
