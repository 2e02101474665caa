"""What to change where a step doesn't fit, and what each change would give."""

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.plan.estimate import USABLE, Fit, memory_on
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts


@dataclasses.dataclass(frozen=True)
class Change:
    """Keys with other values, the bytes a device then needs, and whether that fits."""

    values: dict[str, Any]
    bytes_per_device: int
    fits: bool

    @property
    def text(self) -> str:
        """As on the command line."""
        shown = configuration.shown
        return " ".join(f"--config.{k}={shown(v)}" for k, v in self.values.items())


def changes(parts: Parts, found: Fit) -> list[Change]:
    """Changes that save memory, each alone: batch, accumulation, remat, fsdp.

    Of each kind the mildest that fits, or else the one that saves most.
    """
    kinds = (_batches(found), _parts_of_batch(parts, found), _remat(parts.config))
    kinds = (*kinds, _fsdp(parts.config, found.target.count))
    best = []
    for kind in kinds:
        tried = [_try(parts, found, values) for values in kind]
        fitting = [change for change in tried if change and change.fits]
        smaller = [
            change
            for change in tried
            if change and change.bytes_per_device < found.memory.total
        ]
        if fitting:
            best.append(fitting[0])
        elif smaller:
            best.append(min(smaller, key=lambda change: change.bytes_per_device))
    return best


def _try(parts: Parts, found: Fit, values: dict[str, Any]) -> Change | None:
    """The change's bytes; None where batch and devices don't go with it."""
    config = copy.deepcopy(parts.config)
    config.update_from_flattened_dict(values)
    try:
        total = memory_on(parts, config, found.target).total
    except ValueError:
        return None
    return Change(values, total, total <= USABLE * found.target.device.memory)


def _batches(found: Fit) -> Iterator[dict[str, Any]]:
    if found.largest_batch:
        yield {"data.train.batch_size": found.largest_batch}


def _parts_of_batch(parts: Parts, found: Fit) -> Iterator[dict[str, Any]]:
    config = parts.config
    mesh = meshes.abstract_mesh(found.target.count, **config.mesh)
    per_device = config.data.train.batch_size // meshes.batch_devices(mesh)
    for steps in range(config.train.accumulation_steps + 1, per_device + 1):
        if per_device % steps == 0:
            yield {"train.accumulation_steps": steps}


def _remat(config: ConfigDict) -> Iterator[dict[str, Any]]:
    if config.train.remat == "none":
        yield {"train.remat": "dots"}
    if config.train.remat != "full":
        yield {"train.remat": "full"}


def _fsdp(config: ConfigDict, devices: int) -> Iterator[dict[str, Any]]:
    for size in range(config.mesh.fsdp + 1, devices // config.mesh.tensor + 1):
        if devices % (size * config.mesh.tensor) == 0:
            yield {"mesh.data": -1, "mesh.fsdp": size}
