"""RandAugment: a few operations drawn from a fixed table, at one strength.

Source: Cubuk et al. 2020, arXiv 1909.13719; operations, their ranges and the scale of
magnitudes (0 to 30) are torchvision's RandAugment, on Pillow images. Above 30, which
AugReg's levels need (their 10 is the 30 of this scale), moves, turns and gains go on in
the same way; losses of light, colour and bits stay as they are at 30.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence

from PIL import Image as pillow
from PIL import ImageEnhance, ImageOps

Operation = Callable[[pillow.Image, float], pillow.Image]

_FULL_MAGNITUDE = 30
_DRAWS_PER_LAYER = 4
_LEAST_FACTOR = 0.1
_MOST_BITS_LOST = 4
_NORMAL = statistics.NormalDist()


def _factor(amount: float) -> float:
    # Never darker, paler or duller than at full magnitude.
    return max(_LEAST_FACTOR, 1 + amount)


def _shear_x(image: pillow.Image, amount: float) -> pillow.Image:
    return _affine(image, (1, amount, 0, 0, 1, 0))


def _shear_y(image: pillow.Image, amount: float) -> pillow.Image:
    return _affine(image, (1, 0, 0, amount, 1, 0))


def _translate_x(image: pillow.Image, amount: float) -> pillow.Image:
    return _affine(image, (1, 0, -int(amount * image.width), 0, 1, 0))


def _translate_y(image: pillow.Image, amount: float) -> pillow.Image:
    return _affine(image, (1, 0, 0, 0, 1, -int(amount * image.height)))


def _affine(image: pillow.Image, matrix: tuple[float, ...]) -> pillow.Image:
    return image.transform(image.size, pillow.Transform.AFFINE, matrix)


def _rotate(image: pillow.Image, degrees: float) -> pillow.Image:
    return image.rotate(degrees)


def _brightness(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageEnhance.Brightness(image).enhance(_factor(amount))


def _color(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageEnhance.Color(image).enhance(_factor(amount))


def _contrast(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageEnhance.Contrast(image).enhance(_factor(amount))


def _sharpness(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageEnhance.Sharpness(image).enhance(_factor(amount))


def _posterize(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageOps.posterize(image, 8 - min(round(amount), _MOST_BITS_LOST))


def _solarize(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageOps.solarize(image, 255 - amount)


def _autocontrast(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageOps.autocontrast(image)


def _equalize(image: pillow.Image, amount: float) -> pillow.Image:
    return ImageOps.equalize(image)


def _identity(image: pillow.Image, amount: float) -> pillow.Image:
    return image


# Name -> (operation, its amount at magnitude 30, whether the amount's sign is drawn).
OPERATIONS: dict[str, tuple[Operation, float, bool]] = {
    "Identity": (_identity, 0.0, False),
    "ShearX": (_shear_x, 0.3, True),
    "ShearY": (_shear_y, 0.3, True),
    "TranslateX": (_translate_x, 150 / 331, True),
    "TranslateY": (_translate_y, 150 / 331, True),
    "Rotate": (_rotate, 30.0, True),
    "Brightness": (_brightness, 0.9, True),
    "Color": (_color, 0.9, True),
    "Contrast": (_contrast, 0.9, True),
    "Sharpness": (_sharpness, 0.9, True),
    "Posterize": (_posterize, 4.0, False),
    "Solarize": (_solarize, 255.0, False),
    "AutoContrast": (_autocontrast, 0.0, False),
    "Equalize": (_equalize, 0.0, False),
}


@dataclasses.dataclass(frozen=True)
class RandAugment:
    """`layers` operations of the table, one after the other.

    Attributes:
      layers: operations for each image.
      magnitude: their strength; torchvision's scale of 0 to 30, and beyond.
      magnitude_std: standard deviation of each operation's strength; 0 keeps it.
      probability: of each operation to be applied.
    """

    layers: int
    magnitude: float
    magnitude_std: float
    probability: float

    @property
    def num_draws(self) -> int:
        """How many uniform numbers a call takes."""
        return _DRAWS_PER_LAYER * self.layers

    def __call__(self, image: pillow.Image, draws: Sequence[float]) -> pillow.Image:
        """The changed image, of the same size, from `num_draws` numbers of [0, 1)."""
        table = list(OPERATIONS.values())
        for layer in range(self.layers):
            start = layer * _DRAWS_PER_LAYER
            choice, sign, applied, noise = draws[start : start + _DRAWS_PER_LAYER]
            if applied >= self.probability:
                continue
            operation, full, signed = table[int(choice * len(table))]
            amount = full * self._magnitude(noise) / _FULL_MAGNITUDE
            image = operation(image, -amount if signed and sign < 0.5 else amount)
        return image

    def _magnitude(self, noise: float) -> float:
        if not self.magnitude_std:
            return self.magnitude
        normal = _NORMAL.inv_cdf(noise + math.ulp(0.5))
        return max(0.0, self.magnitude + self.magnitude_std * normal)
