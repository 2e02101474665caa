"""The jitted training step."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from vit_jax.train import losses
from vit_jax.train.state import TrainState

Batch = dict[str, jax.Array]
Prepare = Callable[[Batch, jax.Array], tuple[jax.Array, jax.Array]]


def make_train_step(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    *,
    prepare: Prepare,
    loss: str,
    seed: int,
    shardings: tuple[Any, Any],
) -> Callable[[TrainState, Batch], tuple[TrainState, dict[str, jax.Array]]]:
    """(state, batch) -> (next state, figures), jitted, the old state's memory reused.

    Args:
      prepare: (batch, key) -> (images [B, Y, X, C] as the model takes them, targets
        [B, V]); normalising and mixing happen there, on the device.
      loss: "softmax" or "sigmoid".
      seed: see `step_keys`.
      shardings: of the state and of the figures; the next state lies as the old one.

    Figures are float32 scalars: "loss", "learning_rate" of this update, and
    "gradient_norm" before clipping.
    """

    def loss_of(params: Any, images: jax.Array, targets: jax.Array, batch: Batch, key):
        logits_BV = model.apply(
            {"params": params}, images, train=True, rngs={"dropout": key}
        )
        chex.assert_equal_shape([logits_BV, targets])
        values_B = losses.LOSSES[loss](logits_BV, targets)
        return losses.weighted_mean(values_B, batch["weight"])

    def step(state: TrainState, batch: Batch):
        mixing_key, dropout_key = step_keys(seed, state.step)
        images, targets = prepare(batch, mixing_key)
        value, gradients = jax.value_and_grad(loss_of)(
            state.params, images, targets, batch, dropout_key
        )
        chex.assert_trees_all_equal_shapes(gradients, state.params)
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        figures = {
            "loss": value,
            "learning_rate": jnp.asarray(schedule(state.step)),
            "gradient_norm": optax.tree.norm(gradients),
        }
        following = TrainState(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
        )
        return following, jax.tree.map(lambda x: x.astype(jnp.float32), figures)

    return jax.jit(step, donate_argnums=0, out_shardings=shardings)


def step_keys(seed: int, step: jax.Array | int) -> tuple[jax.Array, jax.Array]:
    """(key of mixing, key of dropout) of a step; they depend on nothing else."""
    mixing_key, dropout_key = jax.random.split(
        jax.random.fold_in(jax.random.key(seed), step)
    )
    return mixing_key, dropout_key
