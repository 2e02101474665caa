"""Multi-head self-attention."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers import regularize


def attention_weights(
    query_BNHK: jax.Array, key_BMHK: jax.Array, bias: jax.Array | None = None
) -> jax.Array:
    """Softmax weights [B, H, N, M] in float32; the rows sum to 1.

    Args:
      query_BNHK: queries.
      key_BMHK: keys.
      bias: added to the scaled products; four dimensions that broadcast with
        [B, H, N, M]. A mask is a bias of minus infinity.

    Source: Vaswani et al. 2017, arXiv 1706.03762, equation 1. The softmax is float32
    whatever the inputs are, since bfloat16 has too few digits for its sum.
    """
    query_BNHK = query_BNHK * query_BNHK.shape[-1] ** -0.5
    scores_BHNM = jnp.einsum(
        "BNHK,BMHK->BHNM", query_BNHK, key_BMHK, preferred_element_type=jnp.float32
    )
    if bias is not None:
        scores_BHNM = scores_BHNM + bias
    return jax.nn.softmax(scores_BHNM, axis=-1)


def dot_product_attention(
    query_BNHK: jax.Array,
    key_BMHK: jax.Array,
    value_BMHK: jax.Array,
    *,
    bias: jax.Array | None = None,
    dropout: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """The values averaged by attention weights, [B, N, H, K] in the values' dtype.

    `dropout` is the share of weights zeroed where `dropout_key` is given.
    """
    weights_BHNM = attention_weights(query_BNHK, key_BMHK, bias)
    weights_BHNM = regularize.dropout(weights_BHNM, dropout, dropout_key)
    weights_BHNM = weights_BHNM.astype(value_BMHK.dtype)
    return jnp.einsum("BHNM,BMHK->BNHK", weights_BHNM, value_BMHK)


class HeadProjection(nn.Module):
    """Kernel [D, H, K] and bias [H, K] of a projection to heads.

    The caller applies them. The kernel is Xavier-uniform over the whole [D, H * K]
    matrix, as for one dense layer.
    """

    num_heads: int
    head_dim: int

    @nn.compact
    def __call__(self, width: int) -> tuple[jax.Array, jax.Array]:
        init = nn.initializers.variance_scaling(
            1.0, "fan_avg", "uniform", in_axis=0, out_axis=(1, 2)
        )
        shape = (self.num_heads, self.head_dim)
        kernel_DHK = self.param("kernel", init, (width, *shape))
        bias_HK = self.param("bias", nn.initializers.zeros, shape)
        return kernel_DHK, bias_HK


class OutProjection(nn.Module):
    """[B, N, H, K] -> [B, N, D]: the heads joined by one dense layer."""

    width: int
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x_BNHK: jax.Array) -> jax.Array:
        init = nn.initializers.variance_scaling(
            1.0, "fan_avg", "uniform", in_axis=(0, 1), out_axis=2
        )
        kernel_HKD = self.param("kernel", init, (*x_BNHK.shape[-2:], self.width))
        bias_D = self.param("bias", nn.initializers.zeros, (self.width,))
        x = jnp.einsum("BNHK,HKD->BND", x_BNHK, kernel_HKD.astype(self.dtype))
        return x + bias_D.astype(self.dtype)[None, None]


class Attention(nn.Module):
    """[B, N, D] -> [B, N, D]: every token reads from all tokens.

    Parameters `query`, `key`, `value`, `out` lie apart, as public weights have them;
    the first three are stacked when applied, so that one product computes all.

    Raises:
      ValueError: the width is no multiple of `num_heads`.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equations 2 and 5 to 8.
    """

    num_heads: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, *, dropout_key: jax.Array | None) -> jax.Array:
        width = x.shape[-1]
        if width % self.num_heads:
            raise ValueError(
                f"width={width} must be a multiple of num_heads={self.num_heads}."
            )
        keys = (None, None) if dropout_key is None else jax.random.split(dropout_key)
        query_BNHK, key_BNHK, value_BNHK = self._project(x, width // self.num_heads)
        x_BNHK = dot_product_attention(
            query_BNHK,
            key_BNHK,
            value_BNHK,
            dropout=self.attention_dropout,
            dropout_key=keys[0],
        )
        x = OutProjection(width, self.dtype, name="out")(x_BNHK)
        return regularize.dropout(x, self.dropout, keys[1])

    def _project(self, x: jax.Array, head_dim: int) -> list[jax.Array]:
        """Query, key and value, each [B, N, H, K], from one product."""
        kernels, biases = zip(
            *(
                HeadProjection(self.num_heads, head_dim, name=name)(x.shape[-1])
                for name in ("query", "key", "value")
            ),
            strict=True,
        )
        kernel_DTHK = jnp.stack(kernels, axis=1).astype(self.dtype)
        bias_THK = jnp.stack(biases).astype(self.dtype)
        qkv_BNTHK = jnp.einsum("BND,DTHK->BNTHK", x, kernel_DTHK)
        qkv_BNTHK = qkv_BNTHK + bias_THK[None, None]
        return [qkv_BNTHK[:, :, index] for index in range(3)]
