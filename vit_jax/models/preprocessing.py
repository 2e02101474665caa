"""What images a model was made for."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How to make a model's input from an image; means and deviations are of [0, 1].

    `crop` is the centre crop's side as a share of the resized image's shorter side.
    """

    image_size: tuple[int, int] = (224, 224)
    crop: float = 0.875
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> "Preprocessing":
        """What a preprocessing.json says (`vit_jax.data.preprocess`)."""
        cropped = described["resize"] == "center"
        return cls(
            image_size=tuple(described["image_size"]),
            crop=described["crop_fraction"] if cropped else 1.0,
            mean=tuple(described["mean"]),
            std=tuple(described["std"]),
        )
