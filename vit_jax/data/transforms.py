"""Image geometry on the host: pictures in, uint8 [Y, X, C] of one size out."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image as pillow

from vit_jax.data.decode import Picture

# (top, left, height, width) in pixels.
Box = tuple[float, float, float, float]

_ATTEMPTS = 10
# Rows interpolated at a time: few enough to stay in cache.
_BAND = 64
_FILTERS = {
    "bilinear": pillow.Resampling.BILINEAR,
    "bicubic": pillow.Resampling.BICUBIC,
}


@dataclasses.dataclass(frozen=True)
class TrainTransform:
    """Brings an image to the model's size, with the randomness of training.

    Attributes:
      image_size: (rows, columns) of the result.
      crop: "random_resized" takes a random area and aspect and resizes it, "resize"
        takes the whole image, "shift" takes the whole image and moves it.
      crop_area: smallest and largest share of the image's area (random_resized).
      crop_aspect: smallest and largest columns / rows of that area.
      shift: largest move in pixels, each way; black where it moved from (shift).
      flip: probability of mirroring left and right.
    """

    image_size: tuple[int, int]
    crop: str
    crop_area: tuple[float, float]
    crop_aspect: tuple[float, float]
    shift: int
    flip: float

    @property
    def num_draws(self) -> int:
        """How many uniform numbers a call takes."""
        return 3 + 2 * _ATTEMPTS if self.crop == "random_resized" else 3

    def __call__(self, picture: Picture, draws: Sequence[float]) -> np.ndarray:
        """uint8 [*image_size, C] from a picture and `num_draws` numbers of [0, 1)."""
        flip, across, down, *attempts = draws
        if self.crop == "random_resized":
            box = random_box(
                picture.shape,
                self.crop_area,
                self.crop_aspect,
                (across, down),
                attempts,
            )
            image = sampled(picture, box, self.image_size)
        else:
            image = resize(picture.pixels(), self.image_size)
        if self.crop == "shift" and self.shift:
            reach = 2 * self.shift + 1
            image = shifted(
                image, int(down * reach) - self.shift, int(across * reach) - self.shift
            )
        return image[:, ::-1] if flip < self.flip else image


@dataclasses.dataclass(frozen=True)
class EvalTransform:
    """Brings an image to the model's size in the one way of evaluation.

    Attributes:
      image_size: (rows, columns) of the result.
      resize: "stretch" squeezes the whole image; "center" keeps its aspect and cuts the
        middle.
      crop_fraction: share of the shorter fit that the middle cut keeps (center).
      interpolation: "bilinear" or "bicubic", both over the area a pixel stands for.
    """

    image_size: tuple[int, int]
    resize: str
    crop_fraction: float
    interpolation: str

    num_draws = 0

    def __call__(self, picture: Picture, draws: Sequence[float] = ()) -> np.ndarray:
        """uint8 [*image_size, C] from a picture."""
        if self.resize == "stretch":
            box = (0.0, 0.0, *picture.shape)
        else:
            box = middle_box(picture.shape, self.image_size, self.crop_fraction)
        return resize(picture.pixels(), self.image_size, box, self.interpolation)


def random_box(
    shape: tuple[int, int],
    area: tuple[float, float],
    aspect: tuple[float, float],
    place: tuple[float, float],
    attempts: Sequence[float],
) -> Box:
    """(top, left, height, width) of a random part of an image of `shape`.

    Area is uniform and aspect log-uniform in their ranges; a part that would stick out
    is drawn again, up to ten times, after which the largest central part of a legal
    aspect is taken.

    Args:
      shape: (rows, columns).
      place: two draws, where the part lies across and down.
      attempts: two draws for each attempt.

    Source: torchvision's RandomResizedCrop, after Szegedy et al. 2015, section 6.
    """
    rows, columns = shape
    low, high = (math.log(side) for side in aspect)
    for size, ratio in zip(attempts[::2], attempts[1::2], strict=True):
        wanted = rows * columns * (area[0] + size * (area[1] - area[0]))
        ratio = math.exp(low + ratio * (high - low))
        width, height = (
            round(math.sqrt(wanted * ratio)),
            round(math.sqrt(wanted / ratio)),
        )
        if 0 < width <= columns and 0 < height <= rows:
            across, down = place
            top = int(down * (rows - height + 1))
            left = int(across * (columns - width + 1))
            return top, left, height, width
    ratio = min(max(columns / rows, aspect[0]), aspect[1])
    width = min(columns, max(1, round(rows * ratio)))
    height = min(rows, max(1, round(columns / ratio)))
    return (rows - height) // 2, (columns - width) // 2, height, width


def middle_box(
    shape: tuple[int, int], image_size: tuple[int, int], fraction: float
) -> Box:
    """(top, left, height, width) of the middle of an image of `shape`.

    It has the aspect of `image_size` and `fraction` of the largest such box's sides:
    what is left of the image resized to 1 / fraction of the size and cut.
    """
    rows, columns = shape
    scale = fraction * min(rows / image_size[0], columns / image_size[1])
    height, width = scale * image_size[0], scale * image_size[1]
    return (rows - height) / 2, (columns - width) / 2, height, width


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
    picture = pillow.fromarray(image[..., 0] if channels == 1 else image)
    resized = picture.resize(
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


def shifted(image: np.ndarray, down: int, across: int) -> np.ndarray:
    """uint8 [Y, X, C] moved by whole pixels, black where it moved away from."""
    moved = np.zeros_like(image)
    rows, columns = image.shape[:2]
    to_rows, from_rows = _overlap(down, rows)
    to_columns, from_columns = _overlap(across, columns)
    moved[to_rows, to_columns] = image[from_rows, from_columns]
    return moved


def _overlap(move: int, size: int) -> tuple[slice, slice]:
    """(where pixels go, where they come from) along one axis."""
    move = max(-size, min(move, size))
    return slice(max(move, 0), size + min(move, 0)), slice(
        max(-move, 0), size - max(move, 0)
    )
