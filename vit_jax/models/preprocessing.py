"""What images a model was made for."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How to make a model's input from an image; means and deviations are of [0, 1].

    `crop` is the centre crop's side as a share of the resized image's shorter side.
    """

    image_size: tuple[int, int] = (224, 224)
    crop: float = 0.875
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
