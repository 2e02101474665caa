"""Tokens that belong to no patch, and one vector from all tokens."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers.attention import HeadProjection, OutProjection
from vit_jax.layers.dot_product import dot_product_attention


class PrefixTokens(nn.Module):
    """Learned tokens that precede the patches, [1, prefix, D].

    The class token, which starts at the paper's zeros or, where `truncated`, from a
    truncated normal of deviation 0.02; then `num_registers` tokens that no pool reads.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equation 1; registers, Darcet et
    al. 2024, arXiv 2309.16588.
    """

    width: int
    class_token: bool = True
    num_registers: int = 0
    truncated: bool = False

    @property
    def num_tokens(self) -> int:
        """How many there are."""
        return int(self.class_token) + self.num_registers

    @nn.compact
    def __call__(self) -> jax.Array:
        drawn = nn.initializers.truncated_normal(stddev=0.02)
        tokens = []
        if self.class_token:
            init = drawn if self.truncated else nn.initializers.zeros
            tokens.append(self.param("class_token", init, (1, 1, self.width)))
        if self.num_registers:
            shape = (1, self.num_registers, self.width)
            tokens.append(self.param("registers", drawn, shape))
        return jnp.concatenate(tokens, axis=1)


class ClassPool(nn.Module):
    """[B, N, D] -> [B, D]: the class token, which stands first."""

    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        return x[:, 0]


class MeanPool(nn.Module):
    """[B, N, D] -> [B, D]: the mean of all patch tokens, summed in float32.

    With `prefix`, the mean of all tokens.
    """

    prefix: bool = False

    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        first = 0 if self.prefix else num_prefix
        return jnp.mean(x[:, first:], axis=1, dtype=jnp.float32)


class ClassAndMeanPool(nn.Module):
    """[B, N, D] -> [B, 2 D]: the class token, then the mean of all patch tokens.

    Source: Oquab et al. 2023, arXiv 2304.07193, the linear head of DINOv2's code.
    """

    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        mean = jnp.mean(x[:, num_prefix:], axis=1, dtype=jnp.float32)
        return jnp.concatenate([x[:, 0].astype(jnp.float32), mean], axis=-1)


class DistilledPool(nn.Module):
    """[B, N, D] -> [B, 2, D]: the class token and the distillation token after it.

    With `mean`, their mean [B, D], for models without a head.

    Source: Touvron et al. 2021, arXiv 2012.12877, section 4.
    """

    mean: bool = False

    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        return jnp.mean(x[:, :2], axis=1) if self.mean else x[:, :2]


class AllTokens(nn.Module):
    """[B, N, D] -> the same: no pooling, every token goes to the head."""

    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        return x


class AttentionPool(nn.Module):
    """[B, N, D] -> [B, D]: one learned query reads the patches; then a residual MLP.

    With `prefix`, it reads all tokens.

    Source: Zhai et al. 2022, arXiv 2106.04560, appendix ("MAP head"), after Lee et al.
    2019, arXiv 1810.00825.
    """

    num_heads: int
    norm: nn.Module
    mlp: nn.Module
    prefix: bool = False
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, num_prefix: int) -> jax.Array:
        x = x if self.prefix else x[:, num_prefix:]
        batch, _, width = x.shape
        xavier = nn.initializers.xavier_uniform()
        probe = self.param("probe", xavier, (1, 1, width)).astype(self.dtype)
        x = x.astype(self.dtype)
        query_1NHK = self._project(probe, "query")
        query_BNHK = jnp.broadcast_to(query_1NHK, (batch, *query_1NHK.shape[1:]))
        x_BNHK = dot_product_attention(
            query_BNHK, self._project(x, "key"), self._project(x, "value")
        )
        x = OutProjection(width, dtype=self.dtype, name="out")(x_BNHK)
        y = self.mlp(self.norm(x).astype(self.dtype), dropout_key=None)
        return (x + y)[:, 0]

    def _project(self, x: jax.Array, name: str) -> jax.Array:
        head_dim = x.shape[-1] // self.num_heads
        projection = HeadProjection(self.num_heads, head_dim, name=name)
        kernel_DHK, bias_HK = projection(x.shape[-1])
        x_BNHK = jnp.einsum("BND,DHK->BNHK", x, kernel_DHK.astype(self.dtype))
        return x_BNHK + bias_HK.astype(self.dtype)[None, None]
