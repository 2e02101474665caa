"""The position-wise half of an encoder block."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers import regularize

ACTIVATIONS = {
    "tanh": partial(nn.gelu, approximate=True),
    "exact": partial(nn.gelu, approximate=False),
}


class MlpBlock(nn.Module):
    """[B, N, D] -> [B, N, D] through one hidden layer of `mlp_dim` with a GELU.

    `gelu` is "tanh" (the original code) or "exact" (timm, Hugging Face); the two differ
    by at most 4.7e-4. Dropout follows both layers.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equation 3.
    """

    mlp_dim: int
    gelu: str = "tanh"
    dropout: float = 0.0
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, *, dropout_key: jax.Array | None) -> jax.Array:
        dense = partial(
            nn.Dense,
            dtype=self.dtype,
            kernel_init=nn.initializers.xavier_uniform(),
            bias_init=nn.initializers.normal(1e-6),
        )
        keys = (None, None) if dropout_key is None else jax.random.split(dropout_key)
        hidden_BNF = dense(self.mlp_dim, name="hidden")(x)
        hidden_BNF = ACTIVATIONS[self.gelu](hidden_BNF)
        hidden_BNF = regularize.dropout(hidden_BNF, self.dropout, keys[0])
        x = dense(x.shape[-1], name="out")(hidden_BNF)
        return regularize.dropout(x, self.dropout, keys[1])
