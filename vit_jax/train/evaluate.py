"""Evaluating a finished or running workdir as training would."""

import os
from typing import Any

from vit_jax import config as configuration
from vit_jax.evals import classification
from vit_jax.train.inputs import open_evaluation
from vit_jax.weights import load, make_logits
from vit_jax.workdir import Workdir, read_json


def evaluate_workdir(
    path: str | os.PathLike,
    *,
    source: str | None = None,
    split: str | None = None,
    batch_size: int | None = None,
) -> dict[str, Any]:
    """Figures of the newest checkpoint on the run's evaluation set, or on another.

    Args:
      path: the run's workdir.
      source: instead of the run's `data.source`.
      split: instead of its `data.eval.split`.
      batch_size: instead of its `data.eval.batch_size`; changes no figure.

    Raises:
      FileNotFoundError: no workdir, no checkpoint or no data.
      ValueError: a file is damaged, or the data has classes that the model lacks.
    """
    loaded = load(path)
    workdir = Workdir(path)
    config = configuration.from_values(read_json(workdir.config))
    config.data.eval.source = source or config.data.eval.source or config.data.source
    config.data.eval.split = split or config.data.eval.split
    config.data.eval.batch_size = batch_size or config.data.eval.batch_size
    batches = open_evaluation(config, loaded.class_names)
    sums = classification.make_sums(make_logits(loaded.model, loaded.preprocessing))
    figures = classification.evaluate(sums, loaded.params, batches())
    described = {"step": loaded.step, "source": config.data.eval.source}
    return described | {"split": config.data.eval.split} | figures
