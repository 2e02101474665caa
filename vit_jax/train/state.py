"""What a training step changes."""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from vit_jax import trees
from vit_jax.train import mesh as meshes

Init = Callable[[jax.Array], Any]


@flax.struct.dataclass
class TrainState:
    """Step count, weights, optimizer state, and the weights' moving average.

    No random key: the keys of a step come from the run's seed and the step count, so
    that a resumed run draws what an uninterrupted one would have.

    Attributes:
      step: optimizer steps done, those passed over included.
      params: the weights.
      opt_state: of the optimizer; frozen parameters have no moments in it.
      nonfinite_steps: how many steps were passed over for their loss or gradient.
      ema_params: moving average of the weights, or None.
    """

    step: jax.Array
    params: Any
    opt_state: Any
    nonfinite_steps: jax.Array
    ema_params: Any = None

    @property
    def eval_params(self) -> Any:
        """The weights to evaluate and predict with: the average where there is one."""
        return self.params if self.ema_params is None else self.ema_params


def make_init(model: nn.Module, image_shape: tuple[int, int, int]) -> Init:
    """key -> fresh weights, jitted: tracing it twice traces the model once.

    Args:
      image_shape: (rows, columns, channels) of one image.
    """
    return jax.jit(lambda key: model.init(key, jnp.zeros((1, *image_shape)))["params"])


def abstract_state(
    params: Any,
    optimizer: optax.GradientTransformation,
    mesh: jax.sharding.Mesh,
    *,
    ema: bool = False,
) -> TrainState:
    """Shapes, types and shardings of a state, without computing one.

    Args:
      params: tree of `jax.ShapeDtypeStruct`.
      ema: whether the state has a moving average.
    """
    shapes = jax.eval_shape(lambda params: _fresh(params, optimizer, ema), params)
    return jax.tree.map(
        lambda leaf, where: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=where
        ),
        shapes,
        meshes.shardings(shapes, mesh),
    )


def create_state(
    init: Init,
    optimizer: optax.GradientTransformation,
    abstract: TrainState,
    seed: int,
    given: trees.Tree | None = None,
) -> TrainState:
    """A fresh state, created where it will live: no device holds all of it first.

    Args:
      init: see `make_init`.
      abstract: says where each part will lie, and whether there is an average.
      given: weights to start from, which may lack some; the optimizer starts anew with
        them. None: all are drawn.
    """
    ema = abstract.ema_params is not None
    wanted = trees.flatten(abstract.params)
    taken = {
        name: _put(value, wanted[name])
        for name, value in trees.flatten(given or {}).items()
    }

    def make(key: jax.Array, taken: dict[str, jax.Array]) -> TrainState:
        drawn = init(key)
        params = trees.unflatten(trees.flatten(drawn) | taken)
        return _fresh(params, optimizer, ema)

    made = jax.jit(make, out_shardings=placed(abstract), donate_argnums=1)
    return made(jax.random.key(seed), taken)


def _put(value: Any, wanted: jax.ShapeDtypeStruct) -> jax.Array:
    """An array of the host, each device getting its part alone, in the wanted type."""
    host = np.asarray(value)
    return jax.make_array_from_callback(
        host.shape, wanted.sharding, lambda index: host[index].astype(wanted.dtype)
    )


def placed(abstract: Any) -> Any:
    """Where each part of an abstract state lies."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def _fresh(
    params: Any, optimizer: optax.GradientTransformation, ema: bool
) -> TrainState:
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        nonfinite_steps=jnp.zeros((), jnp.int32),
        # A copy: the step gives away the memory of each part of the old state.
        ema_params=jax.tree.map(jnp.copy, params) if ema else None,
    )
