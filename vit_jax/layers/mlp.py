"""The position-wise half of an encoder block."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers import regularize


def quick_gelu(x: jax.Array) -> jax.Array:
    """x * sigmoid(1.702 x), the form of OpenAI's CLIP weights."""
    return x * jax.nn.sigmoid(1.702 * x)


ACTIVATIONS = {
    "tanh": partial(jax.nn.gelu, approximate=True),
    "exact": partial(jax.nn.gelu, approximate=False),
    "quick": quick_gelu,
}

_dense = partial(
    nn.Dense,
    kernel_init=nn.initializers.xavier_uniform(),
    bias_init=nn.initializers.normal(1e-6),
)


class MlpBlock(nn.Module):
    """[B, N, D] -> [B, N, D] through one hidden layer of `mlp_dim` with a GELU.

    `gelu` is "tanh" (the original code), "exact" (timm, Hugging Face) or "quick"
    (CLIP); tanh and exact differ by at most 4.7e-4. Dropout follows both layers; an
    `inner_norm` may stand before the last.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equation 3.
    """

    mlp_dim: int
    gelu: str = "tanh"
    dropout: float = 0.0
    use_bias: bool = True
    inner_norm: nn.Module | None = None
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, *, dropout_key: jax.Array | None) -> jax.Array:
        dense = partial(_dense, use_bias=self.use_bias, dtype=self.dtype)
        keys = (None, None) if dropout_key is None else jax.random.split(dropout_key)
        hidden_BNF = dense(self.mlp_dim, name="hidden")(x)
        hidden_BNF = ACTIVATIONS[self.gelu](hidden_BNF)
        hidden_BNF = regularize.dropout(hidden_BNF, self.dropout, keys[0])
        if self.inner_norm is not None:
            hidden_BNF = self.inner_norm(hidden_BNF).astype(self.dtype)
        x = dense(x.shape[-1], name="out")(hidden_BNF)
        return regularize.dropout(x, self.dropout, keys[1])


class SwiGLU(nn.Module):
    """[B, N, D] -> [B, N, D]: a hidden layer of `mlp_dim` times a SiLU gate as wide.

    Source: Shazeer 2020, arXiv 2002.05202, equation 6; in vision, Oquab et al. 2023,
    arXiv 2304.07193.
    """

    mlp_dim: int
    dropout: float = 0.0
    use_bias: bool = True
    inner_norm: nn.Module | None = None
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, *, dropout_key: jax.Array | None) -> jax.Array:
        dense = partial(_dense, use_bias=self.use_bias, dtype=self.dtype)
        keys = (None, None) if dropout_key is None else jax.random.split(dropout_key)
        gate_BNF = jax.nn.silu(dense(self.mlp_dim, name="gate")(x))
        hidden_BNF = gate_BNF * dense(self.mlp_dim, name="hidden")(x)
        hidden_BNF = regularize.dropout(hidden_BNF, self.dropout, keys[0])
        if self.inner_norm is not None:
            hidden_BNF = self.inner_norm(hidden_BNF).astype(self.dtype)
        x = dense(x.shape[-1], name="out")(hidden_BNF)
        return regularize.dropout(x, self.dropout, keys[1])
