"""Random brightness, contrast, saturation and hue."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from PIL import Image as pillow
from PIL import ImageEnhance

_ENHANCERS = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
_HUE = len(_ENHANCERS)
_ORDERS = tuple(itertools.permutations(range(_HUE + 1)))


@dataclasses.dataclass(frozen=True)
class ColorJitter:
    """Changes colours by factors of their own, in a random order.

    Attributes:
      brightness: the factor is uniform in 1 - brightness .. 1 + brightness, not below
        0; 0 leaves it.
      contrast: likewise.
      saturation: likewise.
      hue: the turn of the colour circle is uniform in -hue .. hue; one half is half of
        it.

    Source: torchvision's ColorJitter, on Pillow images.
    """

    brightness: float
    contrast: float
    saturation: float
    hue: float

    num_draws = 5

    def __call__(self, image: pillow.Image, draws: Sequence[float]) -> pillow.Image:
        """The changed image from `num_draws` numbers of [0, 1)."""
        strengths = (self.brightness, self.contrast, self.saturation)
        for step in _ORDERS[int(draws[4] * len(_ORDERS))]:
            draw = 2 * draws[step] - 1
            if step == _HUE:
                image = turned_hue(image, draw * self.hue)
            elif strengths[step]:
                factor = max(0.0, 1 + draw * strengths[step])
                image = _ENHANCERS[step](image).enhance(factor)
        return image


def turned_hue(image: pillow.Image, turn: float) -> pillow.Image:
    """The image with its hues moved by `turn` of the colour circle; grey stays."""
    shift = int(turn * 255) % 256
    if image.mode == "L" or not shift:
        return image
    hue, saturation, value = image.convert("HSV").split()
    moved = np.asarray(hue) + np.uint8(shift)
    turned = pillow.merge("HSV", (pillow.fromarray(moved), saturation, value))
    return turned.convert("RGB")
