"""From a config's augment group to what happens to training images, and where."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.data.color_jitter import ColorJitter
from vit_jax.data.presets import CUSTOM, PRESETS
from vit_jax.data.randaugment import RandAugment
from vit_jax.data.randomness import shuffled
from vit_jax.data.transforms import Step, TrainTransform

_JITTERS = ("brightness", "contrast", "saturation", "hue")
_ON_DEVICE = ("label_smoothing", "mixup", "cutmix", "cutmix_probability", "erasing")


def train_transform(
    config: ConfigDict, image_size: tuple[int, int] | None = None
) -> TrainTransform:
    """What happens to each training image on the host.

    Args:
      image_size: (rows, columns) of a stage; None: the model's.
    """
    augment = augment_values(config)
    return TrainTransform(
        image_size=image_size or configuration.image_shape(config),
        crop=augment["crop"],
        crop_area=tuple(augment["crop_area"]),
        crop_aspect=tuple(augment["crop_aspect"]),
        shift=augment["shift"],
        flip=augment["flip"],
        steps=tuple(_steps(augment)),
    )


def mixing_values(config: ConfigDict) -> dict[str, float]:
    """What happens to training batches on the device: keywords of `mixing.prepare`."""
    augment = augment_values(config)
    return {key: augment[key] for key in _ON_DEVICE}


def augment_values(config: ConfigDict) -> dict[str, Any]:
    """The augment group, its unset keys filled in: what happens in the run."""
    values = config.augment.to_dict()
    given = {key: value for key, value in values.items() if value is not None}
    return {**CUSTOM, **PRESETS.get(values["preset"], {}), **given}


def with_preset(config: ConfigDict) -> ConfigDict:
    """A copy whose augment keys are all set, as they are in the run.

    The preset stays named. What is filled in counts as given from then on, so that
    doing it again changes nothing.
    """
    config = copy.deepcopy(config)
    config.augment.update(augment_values(config))
    return config


def examples_at(
    config: ConfigDict, positions: np.ndarray, num_examples: int
) -> np.ndarray:
    """The training example at each position of the run, int64, repeats included.

    All that names or takes the examples of a step outside `data.pipeline` asks here.

    Args:
      num_examples: of one epoch.
    """
    repeats = augment_values(config)["repeats"]
    return shuffled(config.seed, positions, num_examples, repeats)


def augment_faults(config: ConfigDict) -> list[str]:
    """What is wrong with the augment group as a whole."""
    faults = []
    augment = augment_values(config)
    for key in ("crop_area", "crop_aspect"):
        values = tuple(augment[key])
        if len(values) != 2 or not 0 < values[0] <= values[1]:
            faults.append(
                f"augment.{key}={values} must be two numbers above 0, the "
                "smaller first."
            )
    return faults


def _steps(augment: dict[str, Any]) -> Iterator[Step]:
    jitter = {key: augment[f"jitter_{key}"] for key in _JITTERS}
    if any(jitter.values()):
        yield ColorJitter(**jitter)
    if augment["randaugment_layers"]:
        yield RandAugment(
            layers=augment["randaugment_layers"],
            magnitude=augment["randaugment_magnitude"],
            magnitude_std=augment["randaugment_std"],
            probability=augment["randaugment_probability"],
        )
