"""Where a model looks: its attention as maps of patches, as a pool reads them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from vit_jax.layers import pooling
from vit_jax.layers.attention import attention_weights
from vit_jax.layers.normalize import normalize
from vit_jax.layers.position import Layout


class Look(NamedTuple):
    """What a model computes for images.

    Attributes:
      logits: as without a look, to the bit.
      attention: [B, H, N, N] a layer; the rows sum to 1.
      reading: [B, N], how much each last token weighs in what the head reads.
    """

    logits: jax.Array
    attention: list[jax.Array]
    reading: jax.Array


def make_look(
    model: nn.Module, preprocessing: Mapping[str, Any]
) -> Callable[[Any, jax.Array], Look]:
    """(params, uint8 images [B, Y, X, C]) -> `Look`; to be jitted by the caller.

    Args:
      model: a Vision Transformer, with or without a head.
      preprocessing: has "mean" and "std" of each channel, on a scale from 0 to 1.
    """
    first = num_prefix(model)

    def look(params: Any, images: jax.Array) -> Look:
        floats = normalize(images, preprocessing["mean"], preprocessing["std"])
        variables = {"params": params}
        logits, taps = model.apply(variables, floats, attention_weights=True)
        own = params.get("pool", {})
        reading_BN = pool_reading(model.pool, own, taps["tokens"], first)
        return Look(logits, taps["attention"], reading_BN)

    return look


def num_prefix(model: nn.Module) -> int:
    """Tokens before the patches."""
    return 0 if model.prefix is None else model.prefix.num_tokens


def patch_map(row_N: np.ndarray, layout: Layout) -> np.ndarray:
    """[rows, columns], summing to 1: the patches' part of attention to all tokens.

    Class token and registers lie nowhere and are left out. All zeros where the patches
    get nothing.
    """
    map_YX = np.asarray(row_N, np.float64)[layout.num_prefix :].reshape(layout.grid)
    total = map_YX.sum()
    return map_YX / total if total > 0 else map_YX


def head_maps(
    weights_HNM: np.ndarray, reading_N: np.ndarray, layout: Layout
) -> np.ndarray:
    """[H, rows, columns]: where the tokens that the pool reads look, by head.

    Args:
      weights_HNM: attention of one image and layer.
      reading_N: of that image, see `Look`.
    """
    rows_HM = np.einsum("N,HNM->HM", reading_N, np.asarray(weights_HNM, np.float64))
    return np.stack([patch_map(row_M, layout) for row_M in rows_HM])


def rollout(
    weights_LHNM: Sequence[np.ndarray] | np.ndarray, *, residual: bool = True
) -> np.ndarray:
    """[N, N]: how much of each input token is in each output token, after all layers.

    The heads' mean, half of it replaced by the identity for the residual connection,
    multiplied through the layers; the rows sum to 1.

    Args:
      weights_LHNM: attention of one image, [H, N, N] a layer.
      residual: False leaves the identity out.

    Source: Abnar and Zuidema 2020, arXiv 2005.00928, section 3, with the mean over
    heads as in Dosovitskiy et al. 2021, arXiv 2010.11929, appendix D.8.
    """
    rolled_NM = np.eye(np.shape(weights_LHNM[0])[-1])
    for weights_HNM in weights_LHNM:
        mean_NM = np.asarray(weights_HNM, np.float64).mean(axis=0)
        if residual:
            mean_NM = (mean_NM + np.eye(len(mean_NM))) / 2
        rolled_NM = mean_NM @ rolled_NM
    return rolled_NM


def rollout_map(
    weights_LHNM: Sequence[np.ndarray], reading_N: np.ndarray, layout: Layout
) -> np.ndarray:
    """[rows, columns], summing to 1: the patches in what the head reads."""
    return patch_map(np.asarray(reading_N) @ rollout(weights_LHNM), layout)


def moved_share(before_YX: np.ndarray, after_YX: np.ndarray) -> float:
    """The share of attention that lies elsewhere after, 0 to 1.

    Args:
      before_YX, after_YX: maps that sum to 1.
    """
    return float(np.abs(np.asarray(after_YX) - before_YX).sum() / 2)


def pool_reading(
    pool: nn.Module, params: Mapping[str, Any], tokens: jax.Array, first: int
) -> jax.Array:
    """[B, N], the rows summing to 1: how much a pool takes from each token.

    Args:
      pool: one of `layers.pooling`.
      params: its weights; only a learned query has any.
      tokens: [B, N, D], what it reads.
      first: where the patches start.
    """
    batch, count = tokens.shape[:2]
    patches_N = (jnp.arange(count) >= first) / (count - first)
    class_N = (jnp.arange(count) == 0).astype(jnp.float32)
    match pool:
        case pooling.ClassPool():
            reading_N = class_N
        case pooling.ClassAndMeanPool():
            reading_N = (class_N + patches_N) / 2
        case pooling.DistilledPool():
            reading_N = (jnp.arange(count) < 2) / 2
        case pooling.MeanPool(prefix=True):
            reading_N = jnp.full(count, 1 / count)
        case pooling.AttentionPool():
            return _probe_reading(pool, params, tokens, first)
        case _:
            reading_N = patches_N
    return jnp.broadcast_to(reading_N[None], (batch, count))


def _probe_reading(
    pool: pooling.AttentionPool,
    params: Mapping[str, Any],
    tokens: jax.Array,
    first: int,
) -> jax.Array:
    """[B, N], of the learned query, as `AttentionPool` computes it; its heads' mean."""

    def projected(x: jax.Array, name: str) -> jax.Array:
        x_BNHK = jnp.einsum("BND,DHK->BNHK", x, params[name]["kernel"])
        return x_BNHK + params[name]["bias"][None, None]

    read = tokens if pool.prefix else tokens[:, first:]
    query_1NHK = projected(params["probe"], "query")
    query_BNHK = jnp.broadcast_to(query_1NHK, (len(read), *query_1NHK.shape[1:]))
    weights_BHNM = attention_weights(
        query_BNHK, projected(read.astype(jnp.float32), "key")
    )
    reading_BM = weights_BHNM.mean(axis=1)[:, 0]
    return jnp.pad(reading_BM, ((0, 0), (tokens.shape[1] - read.shape[1], 0)))
