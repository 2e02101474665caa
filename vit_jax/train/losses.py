"""Cross-entropies of logits and target distributions, in float32."""

import jax
import jax.numpy as jnp
import optax


def softmax_cross_entropy(logits_BV: jax.Array, targets_BV: jax.Array) -> jax.Array:
    """Loss of each example [B] in nats; targets sum to 1 over classes."""
    return optax.softmax_cross_entropy(logits_BV.astype(jnp.float32), targets_BV)


def sigmoid_cross_entropy(logits_BV: jax.Array, targets_BV: jax.Array) -> jax.Array:
    """Loss of each example [B]: binary cross-entropies summed over classes.

    The sum, not the mean, is what the original ImageNet-21k pretraining minimises
    (Dosovitskiy et al. 2021, appendix B.1; big_vision's `sigmoid_xent`).
    """
    losses_BV = optax.sigmoid_binary_cross_entropy(
        logits_BV.astype(jnp.float32), targets_BV
    )
    return losses_BV.sum(axis=-1)


LOSSES = {"softmax": softmax_cross_entropy, "sigmoid": sigmoid_cross_entropy}


def shares(weights_B: jax.Array) -> jax.Array:
    """What part of the batch's mean each example is [B]; sums to 1, or 0 for none.

    An example of weight 0 has no part in it. The mean of a loss over examples that
    count is the sum of share * loss, whichever way the batch is cut into parts.
    """
    return weights_B / jnp.maximum(jnp.sum(weights_B), 1)
