"""Evaluating a finished or running workdir as training would."""

import collections
import csv
import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.data.sources import Source
from vit_jax.evals import classification, confusion
from vit_jax.evals.real import read_real, real_accuracy
from vit_jax.models.adapt import ZERO_HEAD, head_is_zero
from vit_jax.train import mesh as meshes
from vit_jax.train.inputs import Evaluation, open_evaluation
from vit_jax.train.stored import stored_config
from vit_jax.weights import Loaded, load, make_logits
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
      confusion_file: a .csv or .json that the confusion matrix is written to.
      real: path of ImageNet-ReaL's real.json; adds "real_accuracy".
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
    data = open_evaluation(config, loaded.class_names, skipped=skipped)
    sums = classification.make_sums(make_logits(loaded.model, loaded.preprocessing))
    figures = {
        "step": loaded.step,
        "source": config.data.eval.source,
        "split": config.data.eval.split,
    } | classification.evaluate(sums, params, meshes.spread(data.batches(), mesh))
    if per_class or confusion_file or real_labels:
        figures |= _from_predictions(
            loaded, data, mesh, per_class, confusion_file, real_labels
        )
    if head_is_zero(loaded.params):
        figures["warning"] = ZERO_HEAD
    if others:
        figures["sets"] = {
            name: _figures_of(config, loaded, sums, mesh, address, part, skipped)
            for name, address, part in others
        }
    if skipped:
        figures["skipped"] = sorted(skipped)
    return figures


def _figures_of(
    config: ConfigDict,
    loaded: Loaded,
    sums: Any,
    mesh: jax.sharding.Mesh,
    address: str,
    split: str,
    skipped: collections.Counter[str],
) -> dict[str, float]:
    config.data.eval.source, config.data.eval.split = address, split
    data = open_evaluation(config, loaded.class_names, skipped=skipped)
    batches = meshes.spread(data.batches(), mesh)
    return classification.evaluate(sums, loaded.params, batches)


def _from_predictions(
    loaded: Loaded,
    data: Evaluation,
    mesh: jax.sharding.Mesh,
    per_class: bool,
    confusion_file: str | None,
    real_labels: list[frozenset[int]] | None,
) -> dict[str, Any]:
    """Figures that need each prediction; writes the confusion matrix."""
    logits_of = make_logits(loaded.model, loaded.preprocessing)
    found = confusion.predict_all(
        confusion.make_predictions(logits_of),
        loaded.params,
        meshes.spread(data.batches(), mesh),
    )
    outputs = jax.eval_shape(logits_of, loaded.params, _image_shape(loaded)).shape[-1]
    names = class_labels(loaded.class_names, outputs)
    matrix = confusion.confusion_matrix(found["label"], found["predicted"], outputs)
    figures: dict[str, Any] = {}
    if per_class:
        rows = confusion.per_class(matrix, names)
        rates = [row["accuracy"] for row in rows if row["examples"]]
        figures["mean_class_accuracy"] = float(np.mean(rates))
        figures["per_class"] = [row for row in rows if row["examples"]]
    if confusion_file:
        _write_matrix(epath.Path(confusion_file), matrix, names)
        figures["confusion"] = confusion_file
    if real_labels:
        examples = _names(data.source, found["index"].tolist())
        figures |= real_accuracy(real_labels, examples, found["predicted"])
    return figures


def class_labels(class_names: tuple[str, ...], outputs: int) -> tuple[str, ...]:
    """A name for each output of a model, which may have more than its data classes."""
    rest = range(len(class_names), outputs)
    return (*class_names, *(f"class {number}" for number in rest))


def _image_shape(loaded: Loaded) -> jax.ShapeDtypeStruct:
    shape = (*loaded.preprocessing["image_size"], loaded.preprocessing["channels"])
    return jax.ShapeDtypeStruct((1, *shape), np.uint8)


def _names(source: Source, indices: Iterable[int]) -> list[str]:
    """Names of examples that hold their files' names; read where only that tells."""
    names = []
    for index in indices:
        name = source.name(index)
        names.append(name if "ILSVRC2012" in name else source[index][2])
    return names


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
