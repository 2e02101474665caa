"""Image geometry on the host: pictures in, uint8 [Y, X, C] of one size out."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from PIL import Image as pillow

from vit_jax.data.decode import Picture
from vit_jax.data.pixels import as_image
from vit_jax.data.resample import Box, resize, sampled

RESIZES = ("stretch", "center")
_ATTEMPTS = 10
_GEOMETRY_DRAWS = 3 + 2 * _ATTEMPTS


class Step(Protocol):
    """A random change of a Pillow image that keeps its size."""

    num_draws: int

    def __call__(self, image: pillow.Image, draws: Sequence[float]) -> pillow.Image:
        """The changed image, from `num_draws` numbers of [0, 1)."""


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
      steps: what is then done to the Pillow image, one after the other; each says in
        `num_draws` how many numbers it takes.
    """

    image_size: tuple[int, int]
    crop: str
    crop_area: tuple[float, float]
    crop_aspect: tuple[float, float]
    shift: int
    flip: float
    steps: tuple[Step, ...]

    @property
    def num_draws(self) -> int:
        """How many uniform numbers a call takes."""
        return _GEOMETRY_DRAWS + sum(step.num_draws for step in self.steps)

    def __call__(self, picture: Picture, draws: Sequence[float]) -> np.ndarray:
        """uint8 [*image_size, C] from a picture and `num_draws` numbers of [0, 1)."""
        image = self._placed(picture, draws[:_GEOMETRY_DRAWS])
        if not self.steps:
            return image
        drawn = as_image(image)
        start = _GEOMETRY_DRAWS
        for step in self.steps:
            drawn = step(drawn, draws[start : start + step.num_draws])
            start += step.num_draws
        return np.asarray(drawn).reshape(image.shape)

    def _placed(self, picture: Picture, draws: Sequence[float]) -> np.ndarray:
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
    to = slice(max(move, 0), size + min(move, 0))
    return to, slice(max(-move, 0), size - max(move, 0))
