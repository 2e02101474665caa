"""From pooled features to logits, in float32 whatever the compute dtype."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class PreLogits(nn.Module):
    """[..., D] -> [..., size]: one tanh layer before the head, for pretraining.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, section 3.1 and appendix D.3.
    """

    size: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param(
            "kernel", nn.initializers.lecun_normal(), (x.shape[-1], self.size)
        )
        bias = self.param("bias", nn.initializers.zeros, (self.size,))
        return jnp.tanh(_dense(x, kernel, bias))


class Head(nn.Module):
    """[..., D] -> logits [..., V], one linear layer.

    Its kernel starts from a normal of `init_std` (0: zeros, so that every class starts
    equal), its bias from `bias_init`.
    """

    num_classes: int
    init_std: float = 0.0
    bias_init: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param(
            "kernel",
            nn.initializers.normal(self.init_std)
            if self.init_std
            else nn.initializers.zeros,
            (x.shape[-1], self.num_classes),
        )
        bias = self.param(
            "bias", nn.initializers.constant(self.bias_init), (self.num_classes,)
        )
        return _dense(x, kernel, bias)


class DistilledHead(nn.Module):
    """[B, 2, D] -> logits [B, V]: the mean of one head for each of two tokens.

    Parameters lie below `class_token` and `distillation_token`.

    Source: Touvron et al. 2021, arXiv 2012.12877, section 4 ("joint classifiers").
    """

    num_classes: int
    init_std: float = 0.0
    bias_init: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        options = self.num_classes, self.init_std, self.bias_init
        logits = Head(*options, name="class_token")(x[:, 0])
        return (logits + Head(*options, name="distillation_token")(x[:, 1])) / 2


def _dense(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    # Accelerators multiply float32 in fewer bits unless told; this is cheap.
    highest = jax.lax.Precision.HIGHEST
    x = jnp.dot(x.astype(jnp.float32), kernel, precision=highest)
    return x + bias.reshape((1,) * (x.ndim - 1) + (-1,))
