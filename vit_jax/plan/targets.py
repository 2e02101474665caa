"""Machines by name: tpu:v5e:4x4, gpu:h100:8."""

import dataclasses
import math
import re

from vit_jax.devices import Device, device

# Slices that exist, by Google's pages on each version. Those of v4 and v5p above 64
# chips have sides of multiples of 4.
_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4")
_SLICES = {"v5e": _FLAT, "v6e": _FLAT, "v4": _DEEP, "v5p": _DEEP}


@dataclasses.dataclass(frozen=True)
class Target:
    """A machine or slice to plan for.

    Attributes:
      name: as it was asked for.
      model: key of `vit_jax.devices.DEVICES`.
      topology: sides of a TPU slice in chips; empty for GPUs.
      count: devices.
    """

    name: str
    model: str
    topology: tuple[int, ...]
    count: int

    @property
    def device(self) -> Device:
        """Each of the devices."""
        return device(self.model)


# A machine of the usual size of each known device.
USUAL = (
    "tpu:v4:2x2x1",
    "tpu:v5e:2x4",
    "tpu:v5p:2x2x1",
    "tpu:v6e:2x4",
    "gpu:a100:8",
    "gpu:h100:8",
    "gpu:h200:8",
    "gpu:l4:8",
    "gpu:rtx4090:1",
)


def parse_target(text: str) -> Target:
    """The target that `text` names.

    Raises:
      ValueError: it names no known device, or a slice that doesn't exist.
    """
    match = re.fullmatch(r"(tpu|gpu):([^:]+):(\d+(?:x\d+)*)", text)
    if not match:
        raise ValueError(
            f"--target={text} must be tpu:MODEL:TOPOLOGY, as tpu:v5e:4x4, or "
            "gpu:MODEL:COUNT, as gpu:h100:8."
        )
    platform, model, size = match.groups()
    try:
        known = device(model)
    except ValueError as error:
        raise ValueError(f"--target={text}: {error}") from error
    if known.platform != platform:
        raise ValueError(f"--target={text}: {model} is a {known.platform}.")
    if platform == "gpu":
        if "x" in size or int(size) == 0:
            raise ValueError(
                f"--target={text}: GPUs are a number of 1 or more, as gpu:{model}:8."
            )
        return Target(text, model, (), int(size))
    sides = tuple(int(side) for side in size.split("x"))
    if not _exists(model, size, sides):
        raise ValueError(
            f"--target={text}: there is no such slice of {model}; there are "
            f"{', '.join(_SLICES[model])}"
            f"{', and larger ones of sides 4, 8, 12, …' if len(sides) == 3 else ''}."
        )
    return Target(text, model, sides, math.prod(sides))


def _exists(model: str, size: str, sides: tuple[int, ...]) -> bool:
    if size in _SLICES[model]:
        return True
    deep = _SLICES[model] is _DEEP
    return deep and len(sides) == 3 and all(side and side % 4 == 0 for side in sides)
