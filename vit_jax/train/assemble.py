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
from vit_jax.train import durations, mixing
from vit_jax.train import mesh as meshes
from vit_jax.train.inputs import Inputs, mixing_values, open_inputs
from vit_jax.train.optimizer import make_optimizer, trained_mask
from vit_jax.train.state import Init, TrainState, abstract_state, make_init, placed
from vit_jax.train.step import make_train_step
from vit_jax.weights import build_model, make_logits

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Parts:
    """All that a run is made of; `config` has its unset keys filled in.

    `init` makes fresh weights from a key; `state` is abstract: shapes, types and
    shardings.
    """

    config: ConfigDict
    mesh: jax.sharding.Mesh
    inputs: Inputs
    model: nn.Module
    init: Init
    state: TrainState
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
    size = None if inputs is None else inputs.num_examples
    keys = ("schedule.", "data.train.batch_size")
    total_steps = found.attempt(lambda: durations.total_steps(config, size), *keys)
    schedule = found.attempt(
        lambda: durations.make_schedule(config, size, total_steps), *keys
    )
    optimizer = found.attempt(
        lambda: _optimizer(config, model, schedule),
        "optimizer.",
        "schedule.",
        "train.freeze",
    )
    if mesh is not None:
        found.extend(_batch_faults(config, mesh))
    configuration.refuse([*faults, *wrong, *found])
    return _parts(config, mesh, inputs, model, total_steps, schedule, optimizer)


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
        micro = config.train.accumulation_steps if split == "train" else 1
        if size < 1 or micro < 1 or size % (devices * micro) == 0:
            continue
        unit = devices * micro
        below, above = size // unit * unit, -(-size // unit) * unit
        nearest = f"{below} or {above}" if below else f"{above}"
        times = f" times train.accumulation_steps={micro}" if micro > 1 else ""
        faults.append(
            f"data.{split}.batch_size={size} must be a multiple of the {devices} "
            f"devices on mesh axes data, fsdp{times}; take {nearest}."
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


@dataclasses.dataclass(frozen=True)
class _Model:
    """A model, how its weights are made, and their shapes."""

    module: nn.Module
    init: Init
    params: Any


def _model(config: ConfigDict) -> _Model:
    """The model, with its image size proved by tracing it (nothing is compiled)."""
    try:
        resolve(config.model.variant, {})
    except ValueError as error:
        raise ValueError(f"model.variant={config.model.variant}: {error}") from error
    try:
        module = build_model(
            config.model.to_dict(),
            num_classes=config.model.num_classes or 1,
            dtype=jnp.dtype(config.train.compute_dtype),
        )
        init = make_init(module, _image_shape(config))
        return _Model(module, init, jax.eval_shape(init, jax.random.key(0)))
    except ValueError as error:
        lines = str(error).splitlines()
        raise ValueError("\n".join(f"model.{line}" for line in lines)) from error


def _image_shape(config: ConfigDict) -> tuple[int, int, int]:
    return (*configuration.image_shape(config), config.model.channels)


def _optimizer(
    config: ConfigDict, model: _Model | None, schedule: optax.Schedule | None
) -> optax.GradientTransformationExtraArgs | None:
    if model is None or schedule is None:
        return None
    return make_optimizer(
        schedule,
        model.params,
        peak=durations.peak_learning_rate(config),
        freeze=config.train.freeze,
        **config.optimizer,
    )


def _parts(
    config: ConfigDict,
    mesh: jax.sharding.Mesh,
    inputs: Inputs,
    model: _Model,
    total_steps: int,
    schedule: optax.Schedule,
    optimizer: optax.GradientTransformationExtraArgs,
) -> Parts:
    """Puts together what was found sound."""
    ema_decay = config.train.ema_decay
    state = abstract_state(model.params, optimizer, mesh, ema=bool(ema_decay))
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
        model=model.module,
        init=model.init,
        state=state,
        image_shape=_image_shape(config),
        num_params=trees.count(model.params),
        total_steps=total_steps,
        peak_learning_rate=durations.peak_learning_rate(config),
        optimizer=optimizer,
        train_step=make_train_step(
            model.module,
            optimizer,
            schedule,
            prepare=prepare,
            loss=config.train.loss,
            seed=config.seed,
            shardings=(placed(state), meshes.replicated(mesh)),
            trained=trained_mask(model.params, config.train.freeze),
            accumulation_steps=config.train.accumulation_steps,
            ema_decay=ema_decay,
        ),
        logits_of=make_logits(model.module, inputs.preprocessing),
    )
