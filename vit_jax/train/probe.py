"""Linear evaluation of a trained model's features in closed form, layer by layer."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from vit_jax.data import pipeline
from vit_jax.data.preprocess import transform_of
from vit_jax.data.sources import open_source
from vit_jax.evals import features, fewshot
from vit_jax.models.spec import VitSpec
from vit_jax.train import mesh as meshes
from vit_jax.train.stored import stored_config
from vit_jax.weights import Loaded, load
from vit_jax.workdir import Workdir


def probe(
    path: str | os.PathLike,
    *,
    source: str | None = None,
    train_split: str | None = None,
    test_split: str | None = None,
    layers: Sequence[str] = (features.POOLED,),
    shots: Sequence[int] = (1, 5, 10, 25),
    l2: Sequence[float] = fewshot.L2,
    seeds: int = 3,
    batch_size: int = 128,
    checkpoint: str | int = "latest",
    devices: Sequence[jax.Device] | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """A row for each layer and number of shots: mean and deviation of test accuracy.

    Args:
      path: a workdir, or whatever else `vit_jax.load` takes.
      source: labelled images of any classes; None: the run's own.
      train_split: examples are drawn from it; None: the run's.
      test_split: is predicted; None: the run's.
      layers: names of `features.layer_names`, or "all".
      shots: examples of each class; 0: all there are, a linear probe.
      l2: strengths; with several, the best mean rank over seeds and shots counts.
      seeds: draws of examples.
      batch_size: images at a time; changes no figure.
      checkpoint: "latest", "best" or a step.
      devices: share each batch; None: all of this process. They change no figure.
      tell: is called with each note on the weights (`Loaded.notes`).

    Raises:
      FileNotFoundError: no workdir, checkpoint or data.
      ValueError: a layer doesn't exist, or a number can't be used.
    """
    loaded = load(path, checkpoint)
    for note in loaded.notes if tell is not None else ():
        tell(f"note: {note}")
    layers = _layers(loaded, layers)
    places = _places(path, source, train_split, test_split)
    train_set = open_source(places[0], places[1])
    names = train_set.class_names
    test_set = open_source(places[0], places[2], class_names=names)
    features_of = jax.jit(
        features.make_features(
            loaded.model,
            loaded.preprocessing,
            layers,
            class_token=isinstance(loaded.spec, VitSpec)
            and loaded.spec.has_class_token,
        )
    )
    mesh = meshes.local_mesh(devices)
    params = jax.device_put(loaded.params, meshes.replicated(mesh))
    train, test = (
        features.collect(
            features_of,
            params,
            meshes.spread(_batches(loaded, images, batch_size), mesh),
        )
        for images in (train_set, test_set)
    )
    rows = []
    for layer in layers:
        accuracies = fewshot.fewshot_accuracies(
            (train[0][layer], train[1]),
            (test[0][layer], test[1]),
            num_classes=len(names),
            shots=shots,
            l2=l2,
            seeds=seeds,
        )
        rows += _rows(layer, accuracies, _given(shots, train[1]), l2)
    return rows


def _given(shots: Sequence[int], labels_N: np.ndarray) -> list[int]:
    """`shots`, 0 where no class has more images than that: all are taken then."""
    most = np.bincount(labels_N).max()
    return [0 if count >= most else count for count in shots]


def _rows(
    layer: str, accuracies: np.ndarray, shots: Sequence[int], l2: Sequence[float]
) -> list[dict[str, Any]]:
    column = fewshot.best_strength(accuracies)
    return [
        {
            "layer": layer,
            "shots": count or "all",
            "l2": l2[column],
            "accuracy": float(accuracies[:, row, column].mean()),
            "deviation": float(accuracies[:, row, column].std()),
        }
        for row, count in enumerate(shots)
    ]


def _layers(loaded: Loaded, asked: Sequence[str]) -> tuple[str, ...]:
    depth = loaded.spec.depth if isinstance(loaded.spec, VitSpec) else 0
    known = features.layer_names(depth)
    if tuple(asked) == ("all",):
        return known
    unknown = [layer for layer in asked if layer not in known]
    if unknown or not asked:
        raise ValueError(
            f"layers={','.join(asked)} must be all, or among {', '.join(known)}."
        )
    return tuple(asked)


def _places(
    path: str | os.PathLike, source: str | None, train: str | None, test: str | None
) -> tuple[str, str, str]:
    """(source, train split, test split), from the run's config where it has one."""
    if Workdir(path).config.exists():
        config = stored_config(Workdir(path))
        address = source or config.data.source
        if not (test or config.data.eval.split):
            raise ValueError(
                f"{path} was trained without evaluation (data.eval.split is empty); "
                "name a split with --split."
            )
        return (
            address,
            train or config.data.train.split,
            test or config.data.eval.split,
        )
    if not source:
        raise ValueError(f"{path} has no data of its own; name some with --data.")
    return source, train or "train", test or "test"


def _batches(loaded: Loaded, images: Any, batch_size: int) -> Any:
    return pipeline.eval_batches(
        images,
        transform_of(loaded.preprocessing),
        batch_size=batch_size,
        channels=loaded.preprocessing["channels"],
    )
