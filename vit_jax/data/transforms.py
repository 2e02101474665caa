"""Image geometry on the host: uint8 [Y, X, C] in, uint8 [Y, X, C] out."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image as pillow

Box = tuple[int, int, int, int]

_ATTEMPTS = 10
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
      shift: largest move in pixels, each way; edges are repeated (shift).
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

    def __call__(self, image: np.ndarray, draws: Sequence[float]) -> np.ndarray:
        """uint8 [*image_size, C] from uint8 [Y, X, C] and `num_draws` of [0, 1)."""
        flip, across, down, *attempts = draws
        if self.crop == "random_resized":
            box = random_box(
                image.shape[:2],
                self.crop_area,
                self.crop_aspect,
                (across, down),
                attempts,
            )
            image = resize(image, self.image_size, box)
        else:
            image = resize(image, self.image_size)
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

    def __call__(self, image: np.ndarray, draws: Sequence[float] = ()) -> np.ndarray:
        """uint8 [*image_size, C] from uint8 [Y, X, C]."""
        if self.resize == "stretch":
            return resize(image, self.image_size, interpolation=self.interpolation)
        rows, columns = image.shape[:2]
        scale = min(rows / self.image_size[0], columns / self.image_size[1])
        scale *= self.crop_fraction
        height, width = (scale * side for side in self.image_size)
        box = ((rows - height) / 2, (columns - width) / 2, height, width)
        return resize(image, self.image_size, box, self.interpolation)


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


def resize(
    image: np.ndarray,
    image_size: tuple[int, int],
    box: tuple[float, float, float, float] | None = None,
    interpolation: str = "bilinear",
) -> np.ndarray:
    """`box` (top, left, height, width; all of the image if None) of uint8 [Y, X, C] at
    `image_size`, each new pixel averaged over the area that it stands for."""
    rows, columns, channels = image.shape
    top, left, height, width = box or (0, 0, rows, columns)
    if (top, left, height, width) == (0, 0, *image_size) == (0, 0, rows, columns):
        return image
    picture = pillow.fromarray(image[..., 0] if channels == 1 else image)
    resized = picture.resize(
        image_size[::-1],
        _FILTERS[interpolation],
        box=(left, top, left + width, top + height),
    )
    return np.asarray(resized).reshape(*image_size, channels)


def shifted(image: np.ndarray, down: int, across: int) -> np.ndarray:
    """uint8 [Y, X, C] moved by whole pixels, its edges repeated where it moved away."""
    rows, columns = image.shape[:2]
    from_rows = _kept_inside(np.arange(-down, rows - down), rows)
    from_columns = _kept_inside(np.arange(-across, columns - across), columns)
    return image.take(from_rows, axis=0).take(from_columns, axis=1)


def _kept_inside(indices: np.ndarray, size: int) -> np.ndarray:
    # ndarray.clip takes five times as long on arrays as short as these.
    return np.minimum(np.maximum(indices, 0), size - 1)
