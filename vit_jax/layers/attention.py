"""Multi-head self-attention."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers import regularize
from vit_jax.layers.dot_product import attention_weights, dot_product_attention
from vit_jax.layers.position import Layout, RelativeBias, rotate
from vit_jax.layers.windows import window_mask, windowed_attention


class HeadProjection(nn.Module):
    """Kernel [D, H, K] and bias [H, K] of a projection to heads, or None for no bias.

    The caller applies them. The kernel is Xavier-uniform over the whole [D, H * K]
    matrix, as for one dense layer.
    """

    num_heads: int
    head_dim: int
    use_bias: bool = True

    @nn.compact
    def __call__(self, width: int) -> tuple[jax.Array, jax.Array | None]:
        init = nn.initializers.variance_scaling(
            1.0, "fan_avg", "uniform", in_axis=0, out_axis=(1, 2)
        )
        shape = (self.num_heads, self.head_dim)
        kernel_DHK = self.param("kernel", init, (width, *shape))
        if not self.use_bias:
            return kernel_DHK, None
        return kernel_DHK, self.param("bias", nn.initializers.zeros, shape)


class OutProjection(nn.Module):
    """[B, N, H, K] -> [B, N, D]: the heads joined by one dense layer."""

    width: int
    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x_BNHK: jax.Array) -> jax.Array:
        init = nn.initializers.variance_scaling(
            1.0, "fan_avg", "uniform", in_axis=(0, 1), out_axis=2
        )
        kernel_HKD = self.param("kernel", init, (*x_BNHK.shape[-2:], self.width))
        x = jnp.einsum("BNHK,HKD->BND", x_BNHK, kernel_HKD.astype(self.dtype))
        if self.use_bias:
            bias_D = self.param("bias", nn.initializers.zeros, (self.width,))
            x = x + bias_D.astype(self.dtype)[None, None]
        return x


class Attention(nn.Module):
    """[B, N, D] -> [B, N, D]: every token reads from all tokens, or from its window.

    Parameters `query`, `key`, `value`, `out` lie apart, as public weights have them;
    the first three are stacked when applied, so that one product computes all.

    Args:
      num_heads: H; the width must be a multiple.
      dropout, attention_dropout: shares of the output and of the weights dropped.
      qkv_bias, out_bias: whether those projections have biases.
      query_norm, key_norm: norms of each head's queries and keys; None for none.
      inner_norm: norm of the joined heads before `out`; None for none.
      relative: gives a bias by distance on the grid; None for none.
      rotary: turns queries and keys by their place on the grid.
      window_size: side of the windows that patches look at; 0: the whole image.
        Prefix tokens see, and are seen by, all.
      dtype: of activations.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equations 2 and 5 to 8; query and
    key norms, Dehghani et al. 2023, arXiv 2302.05442; windows, Li et al. 2022, arXiv
    2203.16527; inner norm, Wang et al. 2022, arXiv 2210.06423.
    """

    num_heads: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    qkv_bias: bool = True
    out_bias: bool = True
    query_norm: nn.Module | None = None
    key_norm: nn.Module | None = None
    inner_norm: nn.Module | None = None
    relative: RelativeBias | None = None
    rotary: bool = False
    window_size: int = 0
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        layout: Layout,
        *,
        dropout_key: jax.Array | None,
        with_weights: bool = False,
    ) -> tuple[jax.Array, jax.Array | None]:
        """The output, and the weights [B, H, N, N] where they are asked for.

        Raises:
          ValueError: the width is no multiple of `num_heads`.
        """
        width = x.shape[-1]
        if width % self.num_heads:
            raise ValueError(
                f"width={width} must be a multiple of num_heads={self.num_heads}."
            )
        keys = (None, None) if dropout_key is None else jax.random.split(dropout_key)
        query_BNHK, key_BNHK, value_BNHK = self._project(x, width // self.num_heads)
        if self.query_norm is not None:
            query_BNHK = self.query_norm(query_BNHK).astype(self.dtype)
        if self.key_norm is not None:
            key_BNHK = self.key_norm(key_BNHK).astype(self.dtype)
        if self.rotary:
            query_BNHK, key_BNHK = rotate(query_BNHK, layout), rotate(key_BNHK, layout)
        qkv = query_BNHK, key_BNHK, value_BNHK
        x_BNHK = self._attend(qkv, layout, keys[0])
        weights = self._weights(qkv, layout) if with_weights else None
        if self.inner_norm is not None:
            joined = x_BNHK.reshape(*x_BNHK.shape[:2], width)
            x_BNHK = self.inner_norm(joined).astype(self.dtype).reshape(x_BNHK.shape)
        x = OutProjection(width, self.out_bias, self.dtype, name="out")(x_BNHK)
        return regularize.dropout(x, self.dropout, keys[1]), weights

    def _project(self, x: jax.Array, head_dim: int) -> list[jax.Array]:
        """Query, key and value, each [B, N, H, K], from one product."""
        kernels, biases = zip(
            *(
                HeadProjection(self.num_heads, head_dim, self.qkv_bias, name=name)(
                    x.shape[-1]
                )
                for name in ("query", "key", "value")
            ),
            strict=True,
        )
        kernel_DTHK = jnp.stack(kernels, axis=1).astype(self.dtype)
        qkv_BNTHK = jnp.einsum("BND,DTHK->BNTHK", x, kernel_DTHK)
        if self.qkv_bias:
            bias_THK = jnp.stack(biases).astype(self.dtype)
            qkv_BNTHK = qkv_BNTHK + bias_THK[None, None]
        return [qkv_BNTHK[:, :, index] for index in range(3)]

    def _attend(
        self,
        qkv: tuple[jax.Array, jax.Array, jax.Array],
        layout: Layout,
        dropout_key: jax.Array | None,
    ) -> jax.Array:
        noise = {"dropout": self.attention_dropout, "dropout_key": dropout_key}
        size = self.window_size
        if not size:
            bias = None if self.relative is None else self.relative(layout)
            return dot_product_attention(*qkv, bias=bias, **noise)
        window = Layout(size, size, num_prefix=0)
        bias = None if self.relative is None else self.relative(window)
        return windowed_attention(*qkv, layout, size, bias=bias, **noise)

    def _weights(
        self, qkv: tuple[jax.Array, jax.Array, jax.Array], layout: Layout
    ) -> jax.Array:
        """Weights [B, H, N, N]; those of windows are zero outside the window."""
        bias = None if self.relative is None else self.relative(layout)
        if self.window_size:
            seen = window_mask(layout.grid, self.window_size, layout.num_prefix)
            mask = jnp.where(seen, 0, -jnp.inf)[None, None]
            bias = mask if bias is None else bias + mask
        return attention_weights(qkv[0], qkv[1], bias)
