"""The optimizer as a chain: clip, rule, weight decay, learning rate."""

from collections.abc import Sequence
from typing import Any

import jax
import optax

from vit_jax import trees
from vit_jax.train.layer_decay import layer_multipliers

# Kernels decay; biases, norms, class token and position table do not.
DECAYED = r".*kernel"

# Where each rule can take its decay; the first is what it does unless told otherwise.
CONVENTIONS = {
    "adamw": ("times_rate", "independent"),
    "adam": ("gradient",),
    "sgd": ("gradient", "times_rate", "independent"),
    "lamb": ("times_rate",),
}

Rules = Sequence[tuple[str, float]]


def make_optimizer(
    schedule: optax.Schedule,
    params: trees.Tree,
    *,
    name: str,
    peak: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    momentum: float = 0.9,
    moment_dtype: str = "float32",
    weight_decay: float = 0.0,
    decay_convention: str | None = None,
    layer_decay: float = 0.0,
    rate_multipliers: Rules = (),
    decay_multipliers: Rules = (),
    clip_norm: float = 0.0,
    freeze: Sequence[str] = (),
    decay_schedule: optax.Schedule | None = None,
) -> optax.GradientTransformationExtraArgs:
    """An optax transformation whose `update` also takes the run's step:
    `update(gradients, opt_state, params, step=step)`.

    The step sets the learning rate; nothing in the state counts for it, so a step that
    is passed over still moves the schedule on.

    Args:
      schedule: step -> learning rate.
      params: the weights, or their shapes; names alone count.
      name: "adamw" (Loshchilov and Hutter 2019, algorithm 2), "adam" (Kingma and Ba
        2015, the decay being part of the gradient), "sgd" with momentum, or "lamb" (You
        et al. 2020, algorithm 2; what doesn't decay takes Adam's step, as in its
        published code and timm's: without any decay, all does).
      peak: the schedule's peak, for the "independent" decay.
      epsilon: added to the root of Adam's second moment.
      moment_dtype: of the first moment, and of SGD's accumulator.
      decay_convention: what is taken off a kernel at each step. "times_rate":
        weight_decay * rate * kernel, the rate with its multipliers. "independent":
        weight_decay * decay_schedule(step) / peak * kernel. "gradient": nothing;
        weight_decay * kernel is added to the clipped gradient. None: the first that
        `CONVENTIONS` has for the name.
      layer_decay: see `layer_multipliers`; 0 is off.
      rate_multipliers: (pattern, factor of the rate); the first match wins, else 1.
      decay_multipliers: (pattern, factor of the decay); the first match wins, else 1
        for kernels and 0 for all other parameters.
      clip_norm: largest global norm of the gradient, frozen ones left out; 0 is off.
      freeze: patterns of parameters that keep every bit and have no moments.
      decay_schedule: step -> rate without what batches of stages make of it; None:
        `schedule`.

    Raises:
      ValueError: a pattern matches no parameter, or values don't go together.
    """
    convention = _convention(name, decay_convention, peak)
    trained = trained_mask(params, freeze)
    decay = _decay_multipliers(params, decay_multipliers, trained)
    rates = _rate_multipliers(params, rate_multipliers, layer_decay)
    rules = {
        "sgd": lambda: optax.trace(momentum, accumulator_dtype=moment_dtype),
        **dict.fromkeys(
            ("adamw", "adam", "lamb"),
            lambda: optax.scale_by_adam(beta1, beta2, epsilon, mu_dtype=moment_dtype),
        ),
    }
    chain = [optax.masked(optax.set_to_zero(), _inverted(trained))]
    if clip_norm:
        chain.append(optax.clip_by_global_norm(clip_norm))
    if convention == "gradient":
        chain.append(_add_decay(weight_decay, decay))
    chain.append(optax.masked(rules[name](), trained))
    if convention == "times_rate":
        chain.append(_add_decay(weight_decay, decay))
    if name == "lamb":
        adapted = jax.tree.map(lambda factor: bool(weight_decay * factor), decay)
        chain.append(optax.masked(optax.scale_by_trust_ratio(), adapted))
    chain.append(_multiply(rates))
    chain.append(_scale_by_rate(schedule))
    if convention == "independent" and weight_decay:
        shape = decay_schedule or schedule
        chain.append(_take_decay(weight_decay / peak, decay, shape))
    return optax.chain(*chain)


def trained_mask(params: trees.Tree, freeze: Sequence[str]) -> dict[str, Any]:
    """Tree of bools: False for parameters that a pattern of `freeze` matches.

    Raises:
      ValueError: a pattern matches no parameter, or all are frozen.
    """
    try:
        trained = _inverted(trees.mask(params, freeze))
    except ValueError as error:
        raise ValueError(f"train.freeze: {error}") from error
    if not any(jax.tree.leaves(trained)):
        raise ValueError(
            f"train.freeze={' '.join(freeze)} freezes every parameter; leave some to "
            "train."
        )
    return trained


def _convention(name: str, asked: str | None, peak: float) -> str:
    possible = CONVENTIONS[name]
    convention = asked or possible[0]
    if convention not in possible:
        raise ValueError(
            f"optimizer.decay_convention={convention} does not go with optimizer.name="
            f"{name}; take {' or '.join(possible)}, or leave it unset."
        )
    if convention == "independent" and peak <= 0:
        raise ValueError(
            "optimizer.decay_convention=independent needs a "
            "schedule.base_learning_rate above 0, since the decay follows the "
            "schedule's shape."
        )
    return convention


def _decay_multipliers(params: trees.Tree, rules: Rules, trained: Any) -> Any:
    """Tree of factors; frozen parameters have 0."""
    try:
        factors = trees.match(params, [*rules, (DECAYED, 1.0)], default=0.0)
    except ValueError as error:
        raise ValueError(f"optimizer.decay_multipliers: {error}") from error
    return jax.tree.map(lambda factor, live: factor if live else 0.0, factors, trained)


def _rate_multipliers(params: trees.Tree, rules: Rules, layer_decay: float) -> Any:
    try:
        factors = trees.match(params, rules, default=1.0)
    except ValueError as error:
        raise ValueError(f"optimizer.rate_multipliers: {error}") from error
    if not layer_decay:
        return factors
    layers = layer_multipliers(params, layer_decay)
    return jax.tree.map(lambda factor, layer: factor * layer, factors, layers)


def _inverted(mask: Any) -> Any:
    return jax.tree.map(lambda value: not value, mask)


def _add_decay(strength: float, factors: Any) -> optax.GradientTransformation:
    def add(updates: Any, params: Any) -> Any:
        return jax.tree.map(
            lambda update, param, factor: (
                update + strength * factor * param if factor else update
            ),
            updates,
            params,
            factors,
        )

    return optax.stateless(add) if strength else optax.identity()


def _take_decay(
    strength: float, factors: Any, schedule: optax.Schedule
) -> optax.GradientTransformationExtraArgs:
    """Updates less strength * factor * schedule(step) of each parameter."""

    def update(updates: Any, state: Any, params: Any, *, step: Any, **_: Any):
        share = strength * schedule(step)
        taken = jax.tree.map(
            lambda value, param, factor: (
                value - share * factor * param if factor else value
            ),
            updates,
            params,
            factors,
        )
        return taken, state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)


def _multiply(factors: Any) -> optax.GradientTransformation:
    def multiply(updates: Any, _: Any) -> Any:
        return jax.tree.map(
            lambda update, factor: update if factor == 1 else factor * update,
            updates,
            factors,
        )

    return optax.stateless(multiply)


def _scale_by_rate(
    schedule: optax.Schedule,
) -> optax.GradientTransformationExtraArgs:
    """Updates times minus the rate of the step that `update` is told."""

    def update(updates: Any, state: Any, params: Any = None, *, step: Any, **_: Any):
        rate = schedule(step)
        return jax.tree.map(lambda value: -rate * value, updates), state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)
