"""From a config to figures, by formula: FLOPs, and how it sits on a machine."""

import dataclasses
import math
from typing import Any

import jax
from ml_collections import ConfigDict

from vit_jax.models.flops import attention_flops, forward_flops, token_grid
from vit_jax.models.spec import ResNetSpec, Spec
from vit_jax.plan.memory import Memory, step_memory
from vit_jax.plan.targets import Target
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts
from vit_jax.train.faults import batch_faults

# What the runtime, the program and fragments leave of a device's memory.
USABLE = 0.95
# Sides of images, as multiples of the config's, for which growth is shown.
_GROWTH = (1, 1.5, 2, 3, 4)


@dataclasses.dataclass(frozen=True)
class Size:
    """What the model computes for an image of one size.

    Attributes:
      image_size: (rows, columns) in pixels.
      tokens: of the encoder; 0 for a ResNet.
      forward_flops: of one image.
      attention_share: of those, what grows with the square of the tokens.
    """

    image_size: tuple[int, int]
    tokens: int
    forward_flops: int
    attention_share: float


@dataclasses.dataclass(frozen=True)
class Costs:
    """What a config costs wherever it runs.

    Attributes:
      parameters: numbers in the weights.
      size: of the training images; `growth` has larger ones.
      step_flops: of one optimizer step over all devices, recomputing included.
      num_examples, batch_size, total_steps: of the run.
    """

    parameters: int
    size: Size
    growth: tuple[Size, ...]
    step_flops: int
    num_examples: int
    batch_size: int
    total_steps: int

    @property
    def steps_per_epoch(self) -> float:
        """Optimizer steps that take as many images as there are."""
        return self.num_examples / self.batch_size


@dataclasses.dataclass(frozen=True)
class Fit:
    """A config on a machine.

    Attributes:
      memory: on each device.
      fits: whether that is at most `USABLE` of what a device has.
      largest_batch: of the devices together, nothing else changed; 0 where not even
        one image a device fits.
      step_seconds: at the utilisation that was asked for.
    """

    target: Target
    memory: Memory
    fits: bool
    largest_batch: int
    step_seconds: float


def costs(parts: Parts) -> Costs:
    """What the parts of a run compute, by formula."""
    config, spec, size = parts.config, parts.spec, parts.image_shape[:2]
    sizes = (tuple(round(times * side) for side in size) for times in _GROWTH)
    return Costs(
        parameters=parts.num_params,
        size=_size(spec, size, parts.image_shape[2]),
        growth=tuple(_sizes_that_fit(spec, sizes, parts.image_shape[2])),
        step_flops=config.data.train.batch_size * image_flops(config, parts),
        num_examples=parts.inputs.num_examples,
        batch_size=config.data.train.batch_size,
        total_steps=parts.total_steps,
    )


def image_flops(config: ConfigDict, parts: Parts) -> int:
    """FLOPs of one image's part in a training step.

    The backward pass takes twice the forward one; what remat computes again comes on
    top: the products of attention with "dots", nearly all with "full". Frozen weights
    count as trained.
    """
    spec, size = parts.spec, parts.image_shape[:2]
    forward = forward_flops(spec, size, parts.image_shape[2])
    again = {"none": 0, "dots": attention_flops(spec, size), "full": forward}
    return 3 * forward + again[config.train.remat]


def fit(parts: Parts, target: Target, utilisation: float) -> Fit:
    """How the run sits on a machine.

    Args:
      utilisation: share of the device's peak that the step's FLOPs reach.

    Raises:
      ValueError: mesh or batch doesn't divide among the devices.
    """
    config, batch = parts.config, parts.config.data.train.batch_size
    memory = memory_on(parts, config, target)
    mesh = meshes.abstract_mesh(target.count, **config.mesh)
    unit = meshes.batch_devices(mesh) * config.train.accumulation_steps
    limit = USABLE * target.device.memory
    flops = batch * image_flops(config, parts) / target.count
    peak = target.device.peak(config.train.compute_dtype)
    return Fit(
        target=target,
        memory=memory,
        fits=memory.total <= limit,
        largest_batch=unit * _largest(memory, batch // unit, limit),
        step_seconds=flops / (utilisation * peak),
    )


def memory_on(parts: Parts, config: ConfigDict, target: Target) -> Memory:
    """The memory of a step of `config`, a variation of the parts', on a machine.

    Raises:
      ValueError: mesh or batch doesn't divide among the devices.
    """
    mesh = meshes.abstract_mesh(target.count, **config.mesh)
    faults = [
        fault for fault in batch_faults(config, mesh) if "train.batch_size" in fault
    ]
    if faults:
        raise ValueError("\n".join(faults))
    state = _on_mesh(parts.state, mesh)
    return step_memory(config, parts.spec, state, mesh, parts.image_shape)


def _on_mesh(state: Any, mesh: meshes.AnyMesh) -> Any:
    return jax.tree.map(
        lambda leaf, where: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=where
        ),
        state,
        meshes.shardings(state, mesh),
    )


def _largest(memory: Memory, units: int, limit: float) -> int:
    """How many units of a batch fit, where `memory` is that of `units`."""

    def total(count: int) -> float:
        return dataclasses.replace(
            memory,
            activations=memory.activations * count / units,
            images=memory.images * count / units,
        ).total

    if total(0) > limit:
        return 0
    low, high = 0, 1
    while total(high) <= limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if total(middle) <= limit else (low, middle)
    return low


def _size(spec: Spec, image_size: tuple[int, int], channels: int) -> Size:
    forward = forward_flops(spec, image_size, channels)
    tokens = 0
    if not isinstance(spec, ResNetSpec):
        tokens = spec.num_prefix + math.prod(token_grid(spec, image_size))
    share = attention_flops(spec, image_size) / forward
    return Size(image_size, tokens, forward, share)


def _sizes_that_fit(spec: Spec, sizes: Any, channels: int) -> Any:
    for size in sizes:
        try:
            yield _size(spec, size, channels)
        except ValueError:
            # No whole number of patches: the table does without it.
            continue
