"""The optimizer as a chain: clip, rule, weight decay, learning rate."""

import optax

from vit_jax import trees

# Kernels decay; biases, norms, class token and position table do not.
DECAYED = r".*kernel"


def make_optimizer(
    schedule: optax.Schedule,
    *,
    name: str,
    beta1: float,
    beta2: float,
    momentum: float,
    weight_decay: float,
    clip_norm: float,
) -> optax.GradientTransformation:
    """An optax transformation for "adamw" or "sgd" (momentum).

    The decay of a step is `weight_decay` times the learning rate times the kernel
    (Loshchilov and Hutter 2019, algorithm 2, with the schedule's rate as its factor).
    """
    rules = {
        "adamw": lambda: optax.scale_by_adam(b1=beta1, b2=beta2),
        "sgd": lambda: optax.trace(decay=momentum),
    }
    chain = [optax.clip_by_global_norm(clip_norm)] if clip_norm else []
    chain.append(rules[name]())
    if weight_decay:
        chain.append(optax.add_decayed_weights(weight_decay, mask=_decayed))
    chain.append(optax.scale_by_learning_rate(schedule))
    return optax.chain(*chain)


def _decayed(params):
    """Tree of bools: which parameters weight decay shrinks."""
    return trees.mask(params, [DECAYED])
