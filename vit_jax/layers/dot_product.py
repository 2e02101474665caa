"""Attention as functions of queries, keys and values."""

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
    # Heads first: XLA's products on CPU take a tenth less time on contiguous heads.
    scores_BHNM = jnp.einsum(
        "BHNK,BHMK->BHNM",
        query_BNHK.swapaxes(1, 2),
        key_BMHK.swapaxes(1, 2),
        preferred_element_type=jnp.float32,
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
    value_BHMK = value_BMHK.swapaxes(1, 2)
    return jnp.einsum("BHNM,BHMK->BHNK", weights_BHNM, value_BHMK).swapaxes(1, 2)
