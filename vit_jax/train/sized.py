"""What depends on the size of the training images: weights, state and step."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.models.described import build_model, grid_of
from vit_jax.models.variants import resolve
from vit_jax.train import features, mixing
from vit_jax.train import mesh as meshes
from vit_jax.train.augment import mixing_values
from vit_jax.train.optimizer import trained_mask
from vit_jax.train.state import Init, TrainState, abstract_state, make_init, placed
from vit_jax.train.step import make_train_step


@dataclasses.dataclass(frozen=True)
class Traced:
    """A model, how its weights are made, and their shapes, for one size of images."""

    module: nn.Module
    image_shape: tuple[int, int, int]
    init: Init
    params: Any


def trace(module: nn.Module, image_shape: tuple[int, int, int]) -> Traced:
    """The model at (rows, columns, channels); nothing is compiled.

    Raises:
      ValueError: the image doesn't fit the model.
    """
    init = make_init(module, image_shape)
    return Traced(module, image_shape, init, jax.eval_shape(init, jax.random.key(0)))


def traced_model(config: ConfigDict) -> Traced:
    """The config's model, with its image size proved by tracing it.

    Raises:
      ValueError: faults of the model's keys, a line each.
    """
    try:
        resolve(config.model.variant, {})
    except ValueError as error:
        raise ValueError(f"model.variant={config.model.variant}: {error}") from error
    try:
        module = build_model(
            config.model.to_dict(),
            num_classes=config.model.num_classes or 1,
            dtype=jnp.dtype(config.train.compute_dtype),
            scan=config.train.scan,
            remat=config.train.remat,
        )
        return trace(
            module, (*configuration.image_shape(config), config.model.channels)
        )
    except ValueError as error:
        lines = [_with_key(line, config) for line in str(error).splitlines()]
        raise ValueError("\n".join(lines)) from error


def _with_key(line: str, config: ConfigDict) -> str:
    """What a model says of its fields, said of the config's keys."""
    field = re.match(r"\w*", line)[0]
    group = next((name for name in ("model", "train") if field in config[name]), None)
    return f"{group}.{line}" if group else f"model: {line}"


@dataclasses.dataclass(frozen=True)
class SizedParts:
    """What depends on the size of the training images.

    `init`, `state` and `train_step` are for this size; `grid` is (rows, columns) of
    patches.
    """

    init: Init
    state: TrainState
    train_step: Callable
    grid: tuple[int, int]


def sized_parts(
    config: ConfigDict,
    mesh: jax.sharding.Mesh,
    preprocessing: Mapping[str, Any],
    model: Traced,
    optimizer: optax.GradientTransformationExtraArgs,
    schedule: optax.Schedule,
    image_size: tuple[int, int],
) -> SizedParts:
    """The training step of one size of images, and the state that it takes.

    Args:
      model: at any size; it is traced again where that is another.
    """
    if image_size != model.image_shape[:2]:
        model = trace(model.module, (*image_size, model.image_shape[2]))
    module, params = model.module, model.params
    cached, ema_decay = config.train.cache_features, config.train.ema_decay
    state = abstract_state(params, optimizer, mesh, ema=bool(ema_decay))
    prepare = functools.partial(
        features.prepare_features if cached else mixing.prepare,
        num_classes=config.model.num_classes,
        preprocessing=preprocessing,
        dtype=jnp.dtype(config.train.compute_dtype),
        **mixing_values(config),
    )
    train_step = make_train_step(
        features.CachedModel(module) if cached else module,
        optimizer,
        schedule,
        prepare=prepare,
        loss=config.train.loss,
        seed=config.seed,
        shardings=(placed(state), meshes.replicated(mesh)),
        trained=trained_mask(params, config.train.freeze),
        accumulation_steps=config.train.accumulation_steps,
        ema_decay=ema_decay,
    )
    return SizedParts(model.init, state, train_step, grid_of(module, image_size))
