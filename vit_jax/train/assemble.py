"""From a config to the parts of a run, or to all that is wrong with it at once.

What only the whole config, the data and the devices can tell is checked here, before
anything is compiled.
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax import trees
from vit_jax.models.variants import resolve
from vit_jax.train import mesh as meshes
from vit_jax.train import mixing, schedules
from vit_jax.train.inputs import Inputs, mixing_values, open_inputs
from vit_jax.train.optimizer import make_optimizer
from vit_jax.train.state import state_shardings
from vit_jax.train.step import make_train_step
from vit_jax.weights import abstract_params, build_model, make_logits

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Parts:
    """All that a run is made of; `config` has its unset keys filled in."""

    config: ConfigDict
    mesh: jax.sharding.Mesh
    inputs: Inputs
    model: nn.Module
    image_shape: tuple[int, int, int]
    num_params: int
    total_steps: int
    peak_learning_rate: float
    optimizer: optax.GradientTransformation
    train_step: Callable
    logits_of: Callable[[Any, jax.Array], jax.Array]


def assemble(config: ConfigDict, *, faults: Sequence[str] = ()) -> Parts:
    """The parts of a run.

    Args:
      config: left as it is.
      faults: what is already known to be wrong, to be reported with the rest.

    Raises:
      ValueError: one message with all faults, a line each.
    """
    config = copy.deepcopy(config)
    wrong = configuration.check(config)
    found = _Faults(wrong)
    mesh = found.attempt(lambda: meshes.make_mesh(**config.mesh), "mesh.")
    inputs = found.attempt(lambda: open_inputs(config), "data.", "augment.", "model.")
    if inputs is not None:
        found.extend(_settle_classes(config, inputs))
    model = found.attempt(lambda: _model(config), "model.", "train.compute_dtype")
    total_steps = found.attempt(lambda: _total_steps(config, inputs), "schedule.total")
    schedule = found.attempt(lambda: _schedule(config, total_steps), "schedule.")
    if mesh is not None:
        found.extend(_batch_faults(config, mesh))
    configuration.refuse([*faults, *wrong, *found])
    return _parts(config, mesh, inputs, model, total_steps, schedule)


class _Faults(list):
    """Sentences about what is wrong, collected while going on as far as possible.

    Args:
      wrong: faults of single values, which stand in the way of parts made of them.
    """

    def __init__(self, wrong: Sequence[str]):
        super().__init__()
        self._wrong = tuple(wrong)

    def attempt(self, make: Callable[[], T], *prefixes: str) -> T | None:
        """`make()`, or None where it fails or the values that it reads are wrong.

        Args:
          make: may raise ValueError or FileNotFoundError, which become faults.
          prefixes: of the keys that `make` reads.
        """
        if any(fault.startswith(prefixes) for fault in self._wrong):
            return None
        try:
            return make()
        except (ValueError, FileNotFoundError) as error:
            self.extend(str(error).splitlines())
            return None


def _batch_faults(config: ConfigDict, mesh: jax.sharding.Mesh) -> list[str]:
    devices = meshes.batch_devices(mesh)
    faults = []
    for split in ("train", "eval"):
        size = config.data[split].batch_size
        if size < 1 or size % devices == 0:
            continue
        below, above = size // devices * devices, -(-size // devices) * devices
        nearest = f"{below} or {above}" if below else f"{above}"
        faults.append(
            f"data.{split}.batch_size={size} must be a multiple of the {devices} "
            f"devices on mesh axes data, fsdp; take {nearest}."
        )
    return faults


def _settle_classes(config: ConfigDict, inputs: Inputs) -> list[str]:
    """Fills in model.num_classes, or says why it can't be what is asked for."""
    count = len(inputs.class_names)
    if config.model.num_classes is None:
        config.model.num_classes = count
    if config.model.num_classes < count:
        return [
            f"model.num_classes={config.model.num_classes} must be at least the "
            f"{count} classes of data.source={config.data.source}; leave it unset to "
            "take as many as the data has."
        ]
    return []


def _model(config: ConfigDict) -> nn.Module:
    """The model, with its image size proved by tracing it (nothing is compiled)."""
    try:
        resolve(config.model.variant, {})
    except ValueError as error:
        raise ValueError(f"model.variant={config.model.variant}: {error}") from error
    try:
        model = build_model(
            config.model.to_dict(),
            num_classes=config.model.num_classes or 1,
            dtype=jnp.dtype(config.train.compute_dtype),
        )
        abstract_params(model, _image_shape(config))
    except ValueError as error:
        lines = str(error).splitlines()
        raise ValueError("\n".join(f"model.{line}" for line in lines)) from error
    return model


def _image_shape(config: ConfigDict) -> tuple[int, int, int]:
    return (*configuration.image_shape(config), config.model.channels)


def _total_steps(config: ConfigDict, inputs: Inputs | None) -> int | None:
    """Optimizer steps of the run; None where the data that would tell is not there."""
    if config.schedule.total_steps is not None:
        return config.schedule.total_steps
    if inputs is None or config.data.train.batch_size < 1:
        return None
    examples = config.schedule.total_epochs * inputs.num_examples
    return max(1, round(examples / config.data.train.batch_size))


def _peak_learning_rate(config: ConfigDict) -> float:
    return schedules.scaled_learning_rate(
        config.schedule.base_learning_rate,
        batch_size=config.data.train.batch_size,
        base_batch_size=config.schedule.base_batch_size,
    )


def _schedule(config: ConfigDict, total_steps: int | None) -> optax.Schedule | None:
    if total_steps is None:
        return None
    return schedules.warmup_then_decay(
        _peak_learning_rate(config),
        total_steps=total_steps,
        warmup_steps=config.schedule.warmup_steps
        or round(config.schedule.warmup_share * total_steps),
        decay=config.schedule.decay,
    )


def _parts(
    config: ConfigDict,
    mesh: jax.sharding.Mesh,
    inputs: Inputs,
    model: nn.Module,
    total_steps: int,
    schedule: optax.Schedule,
) -> Parts:
    """Puts together what was found sound."""
    image_shape = _image_shape(config)
    optimizer = make_optimizer(schedule, **config.optimizer)
    prepare = functools.partial(
        mixing.prepare,
        num_classes=config.model.num_classes,
        preprocessing=inputs.preprocessing,
        dtype=jnp.dtype(config.train.compute_dtype),
        **mixing_values(config),
    )
    return Parts(
        config=config,
        mesh=mesh,
        inputs=inputs,
        model=model,
        image_shape=image_shape,
        num_params=trees.count(abstract_params(model, image_shape)),
        total_steps=total_steps,
        peak_learning_rate=_peak_learning_rate(config),
        optimizer=optimizer,
        train_step=make_train_step(
            model,
            optimizer,
            schedule,
            prepare=prepare,
            loss=config.train.loss,
            seed=config.seed,
            shardings=(
                state_shardings(model, optimizer, image_shape, mesh),
                meshes.replicated(mesh),
            ),
        ),
        logits_of=make_logits(model, inputs.preprocessing),
    )
