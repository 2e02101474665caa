"""Top-1, top-5 and loss over a whole set, each example counted once."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from vit_jax.evals.confusion import Predictions

Batch = dict[str, Any]

# Figures that one weighs models by; there is "examples" too.
FIGURES = ("accuracy", "top5_accuracy", "loss")


def make_sums(
    logits_of: Callable[[Any, jax.Array], jax.Array],
) -> Callable[[Any, Batch], dict[str, jax.Array]]:
    """(params, batch) -> sums over the batch, jitted; examples of weight 0 add nothing.

    Args:
      logits_of: (params, uint8 images [B, Y, X, C]) -> logits [B, V].

    The batch has "image", "label" [B] and "weight" [B] (1 or 0). The sums are float32
    of at most B examples, exact for counts; sums over batches are taken on the host.
    Beside them stands "predicted" [B], the likeliest classes; ties go to the smaller.
    The loss is the softmax cross-entropy in nats, without label smoothing.
    """

    def sums(params: Any, batch: Batch) -> dict[str, jax.Array]:
        logits_BV = logits_of(params, batch["image"]).astype(jnp.float32)
        label_B, weight_B = batch["label"], batch["weight"]
        losses_B = optax.softmax_cross_entropy_with_integer_labels(logits_BV, label_B)
        rank_B = _rank(logits_BV, label_B)
        return {
            "top1": jnp.sum(weight_B * (rank_B < 1)),
            "top5": jnp.sum(weight_B * (rank_B < 5)),
            "loss": jnp.sum(weight_B * losses_B),
            "examples": jnp.sum(weight_B),
            "predicted": jnp.argmax(logits_BV, axis=-1),
        }

    return jax.jit(sums)


def evaluate(
    sums: Callable[[Any, Batch], dict[str, jax.Array]],
    params: Any,
    batches: Iterable[Batch],
    predictions: Predictions | None = None,
) -> dict[str, float]:
    """{"accuracy", "top5_accuracy", "loss", "examples"} over all batches.

    Args:
      predictions: gets what was predicted for each example, in the same pass.

    Raises:
      ValueError: there is no example.
    """
    totals: dict[str, np.float64] = {}
    for batch in batches:
        found = sums(params, batch)
        predicted = found.pop("predicted")
        if predictions is not None:
            predictions.add(batch, predicted)
        for name, value in jax.device_get(found).items():
            totals[name] = totals.get(name, np.float64(0)) + np.float64(value)
    count = totals.get("examples", 0)
    if not count:
        raise ValueError(
            "the evaluation set is empty; name a split with images (data.eval.split)."
        )
    return {
        "accuracy": float(totals["top1"] / count),
        "top5_accuracy": float(totals["top5"] / count),
        "loss": float(totals["loss"] / count),
        "examples": int(count),
    }


def _rank(logits_BV: jax.Array, label_B: jax.Array) -> jax.Array:
    """How many classes stand before the label: larger logits, then smaller ids.

    Ties go to the smaller id, as argmax has it, so that a model whose logits are all
    equal is right for class 0 only. A label beyond the classes, or one whose logit is
    not a number, is never right.
    """
    ids_V = jnp.arange(logits_BV.shape[-1])[None, :]
    label_B1 = label_B[:, None]
    own_B1 = jnp.take_along_axis(
        logits_BV, label_B1, axis=-1, mode="fill", fill_value=jnp.nan
    )
    before_BV = (logits_BV > own_B1) | ((logits_BV == own_B1) & (ids_V < label_B1))
    rank_B = jnp.sum(before_BV, axis=-1)
    return jnp.where(jnp.isnan(own_B1[:, 0]), logits_BV.shape[-1], rank_B)
