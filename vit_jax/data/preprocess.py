"""How a file becomes a model's input, from the description that a run keeps."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vit_jax.data.decode import open_picture
from vit_jax.data.resample import FILTERS
from vit_jax.data.transforms import RESIZES, EvalTransform


def describe(
    transform: EvalTransform,
    *,
    channels: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> dict[str, Any]:
    """All that `preprocess` and normalising need, as JSON values.

    Args:
      mean: of each channel on a scale from 0 to 1, or one number for all.
      std: likewise.
    """
    return {
        "image_size": list(transform.image_size),
        "channels": channels,
        "resize": transform.resize,
        "crop_fraction": transform.crop_fraction,
        "interpolation": transform.interpolation,
        "mean": _per_channel(mean, channels),
        "std": _per_channel(std, channels),
    }


def check(preprocessing: Mapping[str, Any]) -> None:
    """Nothing, where `preprocessing` is what `describe` could have given.

    Raises:
      ValueError: lists every entry that is missing or can't be.
    """
    if not isinstance(preprocessing, Mapping):
        raise ValueError(
            f"it is a {type(preprocessing).__name__} and must be an object"
        )
    faults = [
        f"{name}={preprocessing.get(name)!r} must be {wanted}"
        for name, (holds, wanted) in _ENTRIES.items()
        if not holds(preprocessing.get(name))
    ]
    channels = preprocessing.get("channels")
    faults += [
        f"{name} must have {channels} numbers, one a channel"
        for name in ("mean", "std")
        if not faults and len(preprocessing[name]) != channels
    ]
    if faults:
        raise ValueError("; ".join(faults))


def transform_of(preprocessing: Mapping[str, Any]) -> EvalTransform:
    """The transform that `describe` described."""
    return EvalTransform(
        image_size=tuple(preprocessing["image_size"]),
        resize=preprocessing["resize"],
        crop_fraction=preprocessing["crop_fraction"],
        interpolation=preprocessing["interpolation"],
    )


def preprocess(
    image: bytes | np.ndarray, preprocessing: Mapping[str, Any]
) -> np.ndarray:
    """uint8 [Y, X, C] as the model takes it, just as evaluation makes it.

    Args:
      image: the bytes of an image file, or uint8 pixels [Y, X] or [Y, X, C].
      preprocessing: what `describe` gave, read from preprocessing.json.

    Raises:
      UnreadableImage: the bytes can't be decoded.
    """
    transform = transform_of(preprocessing)
    return transform(open_picture(image, preprocessing["channels"]))


def _numbers(value: Any, above: float) -> bool:
    """Whether `value` is a list of finite numbers, each more than `above`."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(entry, int | float) and above < entry < math.inf
            for entry in value
        )
    )


def _sides(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(side, int) and side > 0 for side in value)
    )


# Name -> (what holds of a right value, the same in words).
_ENTRIES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "image_size": (_sides, "[rows, columns]"),
    "channels": (lambda value: value in (1, 3), "1 or 3"),
    "resize": (lambda value: value in RESIZES, f"one of {', '.join(RESIZES)}"),
    "crop_fraction": (lambda value: _numbers([value], 0), "a number above 0"),
    "interpolation": (lambda value: value in FILTERS, f"one of {', '.join(FILTERS)}"),
    "mean": (lambda value: _numbers(value, -math.inf), "a list of numbers"),
    "std": (lambda value: _numbers(value, 0), "a list of numbers above 0"),
}


def _per_channel(values: tuple[float, ...], channels: int) -> list[float]:
    return list(values) * channels if len(values) == 1 else list(values)
