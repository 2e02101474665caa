"""Tokens that belong to no patch, and one vector from all tokens."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class PrefixTokens(nn.Module):
    """Learned tokens that precede the patches, [1, prefix, D]: the class token.

    It starts at the paper's zeros or, where `truncated`, from a truncated normal of
    deviation 0.02.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equation 1.
    """

    width: int
    truncated: bool = False

    @nn.compact
    def __call__(self) -> jax.Array:
        init = (
            nn.initializers.truncated_normal(stddev=0.02)
            if self.truncated
            else nn.initializers.zeros
        )
        return self.param("class_token", init, (1, 1, self.width))


class ClassPool(nn.Module):
    """[B, N, D] -> [B, D]: the class token, which stands first."""

    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        return x[:, 0]


class MeanPool(nn.Module):
    """[B, N, D] -> [B, D]: the mean of all patch tokens, summed in float32."""

    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        return jnp.mean(x[:, num_prefix:], axis=1, dtype=jnp.float32)
