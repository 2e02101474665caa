"""The jitted training step."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from vit_jax.train import losses
from vit_jax.train.accumulate import accumulated
from vit_jax.train.state import TrainState

Batch = dict[str, jax.Array]
Prepare = Callable[[Batch, jax.Array], tuple[jax.Array, jax.Array]]


def make_train_step(
    model: nn.Module,
    optimizer: optax.GradientTransformationExtraArgs,
    schedule: optax.Schedule,
    *,
    prepare: Prepare,
    loss: str,
    seed: int,
    shardings: tuple[Any, Any],
    trained: Any = None,
    accumulation_steps: int = 1,
    ema_decay: float = 0.0,
) -> Callable[[TrainState, Batch], tuple[TrainState, dict[str, jax.Array]]]:
    """(state, batch) -> (next state, figures), jitted, the old state's memory reused.

    A step whose loss or gradient is not finite changes nothing but two counts: `step`,
    and `nonfinite_steps`.

    Args:
      optimizer: see `make_optimizer`.
      prepare: (batch, key) -> (images [B, Y, X, C] as the model takes them, targets
        [B, V]); normalising and mixing happen there, on the device, for the batch as a
        whole, so that accumulation changes neither.
      loss: "softmax" or "sigmoid".
      seed: see `step_keys`.
      shardings: of the state and of the figures; the next state lies as the old one.
      trained: tree of bools; no gradient is computed for parameters that are False.
        None: all are trained.
      accumulation_steps: parts that the batch is cut into, see `accumulated`.
      ema_decay: share that the average keeps; 0 where the state has none.

    Figures are float32 scalars: "loss", "learning_rate" of this update,
    "gradient_norm" before clipping, and "nonfinite_steps" so far.
    """
    gradient_of = accumulated(
        jax.value_and_grad(_loss_of(model, loss, trained)), accumulation_steps
    )

    def step(state: TrainState, batch: Batch):
        mixing_key, dropout_key = step_keys(seed, state.step)
        images, targets = prepare(batch, mixing_key)
        shares_B = losses.shares(batch["weight"])
        value, gradients = gradient_of(
            state.params, (images, targets, shares_B), dropout_key
        )
        chex.assert_trees_all_equal_shapes(gradients, state.params)
        norm = optax.tree.norm(gradients)
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        following = TrainState(
            step=state.step + 1,
            nonfinite_steps=state.nonfinite_steps + ~finite,
            **_where(finite, _moved(optimizer, ema_decay, state, gradients), state),
        )
        figures = {
            "loss": value,
            "learning_rate": jnp.asarray(schedule(state.step)),
            "gradient_norm": norm,
            "nonfinite_steps": following.nonfinite_steps,
        }
        return following, jax.tree.map(lambda x: x.astype(jnp.float32), figures)

    return jax.jit(step, donate_argnums=0, out_shardings=shardings)


def step_keys(seed: int, step: jax.Array | int) -> tuple[jax.Array, jax.Array]:
    """(key of mixing, key of dropout) of a step; they depend on nothing else."""
    mixing_key, dropout_key = jax.random.split(
        jax.random.fold_in(jax.random.key(seed), step)
    )
    return mixing_key, dropout_key


def _loss_of(model: nn.Module, loss: str, trained: Any) -> Callable[..., jax.Array]:
    """(params, (images, targets, shares [B]), key) -> sum of share * loss."""

    def loss_of(params: Any, batch: tuple[jax.Array, ...], key: jax.Array):
        images, targets, shares_B = batch
        if trained is not None:
            params = jax.tree.map(
                lambda leaf, live: leaf if live else jax.lax.stop_gradient(leaf),
                params,
                trained,
            )
        logits_BV = model.apply(
            {"params": params}, images, train=True, rngs={"dropout": key}
        )
        chex.assert_equal_shape([logits_BV, targets])
        return jnp.sum(losses.LOSSES[loss](logits_BV, targets) * shares_B)

    return loss_of


def _moved(
    optimizer: optax.GradientTransformationExtraArgs,
    ema_decay: float,
    state: TrainState,
    gradients: Any,
) -> dict[str, Any]:
    """What a sound step makes of weights, optimizer state and average."""
    updates, opt_state = optimizer.update(
        gradients, state.opt_state, state.params, step=state.step
    )
    params = optax.apply_updates(state.params, updates)
    ema_params = state.ema_params
    if ema_params is not None:
        # Added as a difference, so that a weight that stays, as a frozen one does,
        # leaves its average as it is to the last bit.
        ema_params = jax.tree.map(
            lambda average, new: average + (1 - ema_decay) * (new - average),
            ema_params,
            params,
        )
    return {"params": params, "opt_state": opt_state, "ema_params": ema_params}


def _where(finite: jax.Array, moved: dict[str, Any], state: TrainState) -> Any:
    """`moved` where the step is sound, else the same parts of the old state."""
    return {
        name: jax.tree.map(
            lambda new, old: jnp.where(finite, new, old), part, getattr(state, name)
        )
        for name, part in moved.items()
    }
