"""A part of an image at another size: averaged over areas, or sampled quickly."""

import numpy as np
from PIL import Image as pillow

from vit_jax.data.decode import Picture, as_image

# (top, left, height, width) in pixels.
Box = tuple[float, float, float, float]

# Rows interpolated at a time: few enough to stay in cache.
_BAND = 64
_FILTERS = {
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
        _FILTERS[interpolation],
        box=(left, top, left + width, top + height),
    )
    return np.asarray(resized).reshape(*image_size, channels)


def sampled(picture: Picture, box: Box, image_size: tuple[int, int]) -> np.ndarray:
    """`box` of a picture at `image_size`, uint8 [*image_size, C], for training.

    The picture is decoded at the smallest of 1, 1/2, 1/4, … of its size that holds the
    box with at least `image_size` pixels, and then read by bilinear interpolation
    between the nearest two rows and columns: twice as quick as averaging over areas.
    """
    top, left, height, width = box
    shrink = 1
    while min(height / image_size[0], width / image_size[1]) >= 2 * shrink:
        shrink *= 2
    pixels = picture.draft(shrink)
    rows, columns, size = pixels.shape
    down, across = rows / picture.shape[0], columns / picture.shape[1]
    above, below, ratio_Y = _between(top * down, height * down, image_size[0], rows)
    before, after, ratio_X = _between(
        left * across, width * across, image_size[1], columns
    )
    first = before[0]
    pixels = pixels[:, first : after[-1] + 1]
    before, after = before - first, after - first
    image = np.empty((*image_size, min(size, 3)), np.uint8)
    for start in range(0, image_size[0], _BAND):
        band = slice(start, start + _BAND)
        pair = pixels[above[band]], pixels[below[band]]
        _fill_band(image[band], pair, ratio_Y[band], (before, after), ratio_X)
    return image


def _fill_band(
    band: np.ndarray,
    lines: tuple[np.ndarray, np.ndarray],
    ratio_Y: np.ndarray,
    columns: tuple[np.ndarray, np.ndarray],
    ratio_X: np.ndarray,
) -> None:
    """Interpolates some rows: between `lines`, uint8 [y, X, K] each, then between
    `columns`, indices of X, into `band`, uint8 [y, x, C]."""
    rows, _, size = lines[0].shape
    mixed = _blended(*(line.reshape(rows, -1) for line in lines), ratio_Y[:, None])
    words = mixed.view(np.uint32 if size == 4 else np.uint8)
    pair = (words.take(index, axis=1).view(np.uint8) for index in columns)
    mixed = _blended(*pair, np.repeat(ratio_X, size)).reshape(rows, -1, size)
    # Channel by channel is six times as quick as all at once.
    for channel in range(band.shape[-1]):
        band[..., channel] = mixed[..., channel]


def _between(
    start: float, length: float, count: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For `count` points in the middles of equal parts of a stretch of an axis of
    `size` pixels: the pixel before, the one after, and how far between, of 256."""
    points = (np.arange(count) + 0.5) * (length / count) + (start - 0.5)
    points = points.clip(0, size - 1)
    before = points.astype(np.intp)
    ratio = ((points - before) * 256 + 0.5).astype(np.uint16)
    return before, np.minimum(before + 1, size - 1), ratio


def _blended(first: np.ndarray, second: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """uint8 first + (second - first) * ratio / 256, rounded."""
    mixed, part = first.astype(np.uint16), second.astype(np.uint16)
    mixed *= 256 - ratio
    part *= ratio
    mixed += part
    mixed += 128
    mixed >>= 8
    return mixed.astype(np.uint8)
