"""Evaluating a finished or running workdir as training would."""

import collections
import csv
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from etils import epath

from vit_jax import config as configuration
from vit_jax.evals import classification, confusion
from vit_jax.evals.real import read_real
from vit_jax.models.adapt import ZERO_HEAD, head_is_zero
from vit_jax.train import mesh as meshes
from vit_jax.train.details import Details
from vit_jax.train.inputs import open_evaluation
from vit_jax.train.stored import stored_config
from vit_jax.weights import load, make_logits
from vit_jax.workdir import Workdir

_MATRIX_SUFFIXES = (".csv", ".json")


def evaluate_workdir(
    path: str | os.PathLike,
    *,
    source: str | None = None,
    split: str | None = None,
    batch_size: int | None = None,
    checkpoint: str | int = "latest",
    per_class: bool = False,
    confusion_file: str | None = None,
    real: str | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> dict[str, Any]:
    """Figures of a checkpoint on the run's evaluation sets, or on another set.

    Args:
      path: the run's workdir.
      source: instead of the run's `data.source`; its `evals.sets` are then left alone.
      split: instead of its `data.eval.split`; likewise.
      batch_size: instead of its `data.eval.batch_size`; changes no figure.
      checkpoint: "latest", "best" or a step.
      per_class: adds "per_class" and "mean_class_accuracy".
      confusion_file: a .csv or .json that the confusion matrix is written to; those of
        `evals.sets` have the set's name before the suffix.
      real: path of ImageNet-ReaL's real.json; adds "real_accuracy", among the other
        sets to those of ImageNet's validation images.
      devices: share each batch; None: all of this process. They change no figure.

    Raises:
      FileNotFoundError: no workdir, no such checkpoint or no data.
      ValueError: a file is damaged, or the data has classes that the model lacks.
    """
    if confusion_file and not confusion_file.endswith(_MATRIX_SUFFIXES):
        raise ValueError(f"--confusion={confusion_file} must end in .csv or .json.")
    real_labels = read_real(real) if real else None
    loaded = load(path, checkpoint)
    config = stored_config(Workdir(path))
    configuration.refuse(configuration.check(config))
    others = () if source or split else config.evals.sets
    config.data.eval.source = source or config.data.eval.source or config.data.source
    config.data.eval.split = split or config.data.eval.split
    config.data.eval.batch_size = batch_size or config.data.eval.batch_size
    if not config.data.eval.split:
        raise ValueError(
            f"{path} was trained without evaluation (data.eval.split is empty); name a "
            "split with --split."
        )
    mesh = meshes.local_mesh(devices)
    params = jax.device_put(loaded.params, meshes.replicated(mesh))
    loaded = dataclasses.replace(loaded, params=params)
    skipped: collections.Counter[str] = collections.Counter()
    details = Details(
        loaded.class_names,
        loaded.spec.num_classes,
        per_class=per_class,
        real=real_labels,
    )
    sums = classification.make_sums(make_logits(loaded.model, loaded.preprocessing))

    def figures_of(file: str | None, main: bool) -> dict[str, Any]:
        data = open_evaluation(config, loaded.class_names, skipped=skipped)
        wanted = confusion.Predictions() if details.asked or file else None
        batches = meshes.spread(data.batches(), mesh)
        found = classification.evaluate(sums, params, batches, wanted)
        if wanted is None:
            return found
        more, matrix = details.of(wanted.all(), data.source, main=main)
        if file:
            _write_matrix(epath.Path(file), matrix, details.names)
            more["confusion"] = file
        return found | more

    figures = {
        "step": loaded.step,
        "source": config.data.eval.source,
        "split": config.data.eval.split,
    } | figures_of(confusion_file, main=True)
    if head_is_zero(loaded.params):
        figures["warning"] = ZERO_HEAD
    if others:
        figures["sets"] = {}
        for name, address, part in others:
            config.data.eval.source, config.data.eval.split = address, part
            file = _file_of_set(confusion_file, name) if confusion_file else None
            figures["sets"][name] = figures_of(file, main=False)
    if skipped:
        figures["skipped"] = sorted(skipped)
    return figures


def _file_of_set(file: str, name: str) -> str:
    """confusion.csv -> confusion.NAME.csv."""
    stem, suffix = os.path.splitext(file)
    return f"{stem}.{name}{suffix}"


def _write_matrix(file: epath.Path, matrix: np.ndarray, names: tuple[str, ...]) -> None:
    """Rows are classes, columns predictions."""
    if file.suffix == ".json":
        content = {"classes": list(names), "counts": matrix.tolist()}
        file.write_text(json.dumps(content) + "\n")
        return
    with file.open("w") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["class", *names])
        writer.writerows(
            [name, *row] for name, row in zip(names, matrix.tolist(), strict=True)
        )
