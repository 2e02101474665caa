"""What a model knows about images before its head: one vector an image and layer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from vit_jax.layers.normalize import normalize

POOLED = "pooled"

Features = dict[str, jax.Array]


def layer_names(depth: int) -> tuple[str, ...]:
    """What can be asked for: "0" to "depth - 1", each block's output, and "pooled"."""
    return (*map(str, range(depth)), POOLED)


def make_features(
    model: nn.Module,
    preprocessing: Mapping[str, Any],
    layers: Sequence[str] = (POOLED,),
    *,
    class_token: bool = False,
) -> Callable[[Any, jax.Array], Features]:
    """(params, uint8 images [B, Y, X, C]) -> {layer: float32 [B, D]}; to be jitted.

    Args:
      model: with or without a head.
      preprocessing: has "mean" and "std" of each channel, on a scale from 0 to 1.
      layers: names of `layer_names`. "pooled" is what the head reads; a block's number
        is its output, as one vector:
      class_token: its class token, or else the mean of all tokens.
    """

    def features_of(params: Any, images: jax.Array) -> Features:
        floats = normalize(images, preprocessing["mean"], preprocessing["std"])
        if tuple(layers) == (POOLED,):
            pooled = model.clone(head=None).apply({"params": params}, floats)
            return {POOLED: pooled.astype(jnp.float32)}
        _, taps = model.apply({"params": params}, floats, features=True)
        return {layer: _vector(taps, layer, class_token) for layer in layers}

    return features_of


def collect(
    features_of: Callable[[Any, jax.Array], Features],
    params: Any,
    batches: Iterable[dict[str, Any]],
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """({layer: float32 [N, D]}, labels [N]) of all examples of weight 1, in order.

    Args:
      features_of: jitted or not.
      params: the model's weights.
      batches: of "image", "label" and "weight", as `data.pipeline.eval_batches` gives.

    Raises:
      ValueError: there is no example.
    """
    rows, labels = [], []
    for batch in batches:
        counted = np.asarray(batch["weight"]) > 0
        found = jax.device_get(features_of(params, batch["image"]))
        rows.append({layer: values[counted] for layer, values in found.items()})
        labels.append(np.asarray(batch["label"])[counted])
    if not sum(map(len, labels)):
        raise ValueError("there are no images to take features of; widen the split.")
    joined = {layer: np.concatenate([row[layer] for row in rows]) for layer in rows[0]}
    return joined, np.concatenate(labels)


def _vector(taps: Mapping[str, Any], layer: str, class_token: bool) -> jax.Array:
    if layer == POOLED:
        return taps["pooled"].astype(jnp.float32)
    tokens_BND = taps["layers"][int(layer)].astype(jnp.float32)
    return tokens_BND[:, 0] if class_token else tokens_BND.mean(axis=1)
