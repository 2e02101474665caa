"""A run's labelled examples with the model's answers, for pictures."""

import dataclasses
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax import config as configuration
from vit_jax.data.sources import Source
from vit_jax.evals.prediction import ACTIVATIONS
from vit_jax.train.inputs import open_evaluation
from vit_jax.train.stored import stored_config
from vit_jax.weights import Loaded, make_logits
from vit_jax.workdir import Workdir


@dataclasses.dataclass(frozen=True)
class Examples:
    """The first examples of a run's evaluation split.

    Attributes:
      source: where they come from.
      index_N: their places in it.
      label_N: their classes.
      probabilities_NV: the model's answers.
      images: uint8 [K, Y, X, C] of the first, as the model takes them.
      total: how many the split has.
    """

    source: Source
    index_N: np.ndarray
    label_N: np.ndarray
    probabilities_NV: np.ndarray
    images: np.ndarray
    total: int

    def original(self, place: int) -> Any:
        """Encoded bytes or pixels of one example."""
        return self.source[int(self.index_N[place])][0]


def read_examples(
    path: str | os.PathLike, loaded: Loaded, limit: int, kept: int
) -> Examples:
    """The model's answers to the first examples of the run's evaluation split.

    Args:
      path: the run's workdir.
      loaded: its model, which has a head.
      limit: most examples.
      kept: how many of their images to keep.

    Raises:
      FileNotFoundError: the data is no longer there.
      ValueError: the run has no evaluation split, or a file is damaged.
    """
    config = stored_config(Workdir(path))
    configuration.refuse(configuration.check(config))
    if not config.data.eval.split:
        raise ValueError("the run has no evaluation split (data.eval.split is empty).")
    data = open_evaluation(config, loaded.class_names)
    logits_of = make_logits(loaded.model, loaded.preprocessing)
    activation = ACTIVATIONS[loaded.loss]

    @jax.jit
    def answers(params: Any, images: jax.Array) -> jax.Array:
        return activation(logits_of(params, images).astype(jnp.float32))

    rows: dict[str, list[np.ndarray]] = {key: [] for key in _KEYS}
    images: list[np.ndarray] = []
    for batch in data.batches():
        counted = np.asarray(batch["weight"]) > 0
        found = jax.device_get(answers(loaded.params, batch["image"]))
        for key, values in (batch | {"probabilities": found}).items():
            if key in rows:
                rows[key].append(np.asarray(values)[counted])
        missing = max(0, kept - sum(map(len, images)))
        images.append(np.asarray(batch["image"])[counted][:missing])
        if sum(map(len, rows["label"])) >= limit:
            break
    joined = {key: np.concatenate(parts)[:limit] for key, parts in rows.items()}
    return Examples(
        data.source,
        joined["index"],
        joined["label"],
        joined["probabilities"],
        np.concatenate(images)[:limit],
        len(data.source),
    )


_KEYS = ("index", "label", "probabilities")
