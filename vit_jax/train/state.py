"""What a training step changes."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from vit_jax.train import mesh as meshes


@flax.struct.dataclass
class TrainState:
    """Step count, weights and optimizer state.

    No random key: the keys of a step come from the run's seed and the step count, so
    that a resumed run draws what an uninterrupted one would have.
    """

    step: jax.Array
    params: Any
    opt_state: Any


def create_state(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    image_shape: tuple[int, int, int],
    mesh: jax.sharding.Mesh,
    seed: int,
) -> TrainState:
    """A fresh state, created where it will live: no device holds all of it first.

    Args:
      image_shape: (rows, columns, channels) of one image.
    """
    init = _initializer(model, optimizer, image_shape)
    where = state_shardings(model, optimizer, image_shape, mesh)
    return jax.jit(init, out_shardings=where)(jax.random.key(seed))


def abstract_state(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    image_shape: tuple[int, int, int],
    mesh: jax.sharding.Mesh,
) -> TrainState:
    """Shapes, types and shardings of a state, without computing one."""
    init = _initializer(model, optimizer, image_shape)
    shapes = jax.eval_shape(init, jax.random.key(0))
    return jax.tree.map(
        lambda leaf, where: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=where
        ),
        shapes,
        meshes.shardings(shapes, mesh),
    )


def state_shardings(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    image_shape: tuple[int, int, int],
    mesh: jax.sharding.Mesh,
) -> TrainState:
    """Where each part of a state lies."""
    abstract = abstract_state(model, optimizer, image_shape, mesh)
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def _initializer(model, optimizer, image_shape):
    def init(key):
        params = model.init(key, jnp.zeros((1, *image_shape)))["params"]
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=params,
            opt_state=optimizer.init(params),
        )

    return init
