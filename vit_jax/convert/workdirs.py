"""Our own folder of a converted model; `vit_jax.weights` reads those of runs."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from vit_jax import trees
from vit_jax.checkpoint import Checkpoints, restore_params
from vit_jax.convert.layout import Weights, shapes_of
from vit_jax.data.preprocess import check as check_preprocessing
from vit_jax.models.checks import check
from vit_jax.models.variants import ResNetSpec, Spec, VitSpec
from vit_jax.workdir import Workdir, read_json

_KINDS = {"vit": VitSpec, "resnet": ResNetSpec}
MODEL = "model.json"


def read_model(path: epath.Path) -> Weights:
    """The weights of a folder that `write_model` wrote.

    Raises:
      ValueError: a file in it is damaged.
    """
    workdir = Workdir(path)
    try:
        said = read_json(path / MODEL)
        spec = spec_of(said["kind"], said["fields"])
        check(spec)
        preprocessing = workdir.read_preprocessing()
        check_preprocessing(preprocessing)
        shape = (*preprocessing["image_size"], preprocessing["channels"])
        abstract = _abstract(spec, shape, said["dtypes"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path / MODEL} or preprocessing.json beside it is damaged: {error}; "
            "convert the model again."
        ) from error
    names = workdir.read_classes()
    step, params = restore_params(workdir.checkpoints, abstract)
    return Weights("orbax", spec, _on_host(params), preprocessing, names, step)


def write_model(path: epath.Path, weights: Weights) -> None:
    """Fills a folder: `model.json`, preprocessing, class names and a checkpoint."""
    workdir = Workdir(path)
    path.mkdir(parents=True, exist_ok=True)
    said = {
        "kind": kind_of(weights.spec),
        "fields": dataclasses.asdict(weights.spec),
        "dtypes": {
            name: array.dtype.name
            for name, array in weights.params.items()
            if array.dtype != np.float32
        },
    }
    (path / MODEL).write_text(json.dumps(said, indent=2) + "\n")
    workdir.write_preprocessing(weights.preprocessing)
    workdir.write_classes(weights.class_names)
    checkpoints = Checkpoints(workdir.checkpoints, keep=1)
    params = trees.unflatten(weights.params)
    checkpoints.save(weights.step, {"params": params})
    checkpoints.close()


def kind_of(spec: Spec) -> str:
    """The spec's class in a word."""
    return next(kind for kind, cls in _KINDS.items() if isinstance(spec, cls))


def spec_of(kind: str, fields: Mapping[str, Any]) -> Spec:
    """The spec that `kind_of` and its fields described."""
    return _KINDS[kind](
        **{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    )


def _abstract(
    spec: Spec, shape: tuple[int, int, int], dtypes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return trees.unflatten(
        {
            name: jax.ShapeDtypeStruct(
                size, jnp.dtype((dtypes or {}).get(name, "float32"))
            )
            for name, size in shapes_of(spec, shape).items()
        }
    )


def _on_host(params: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf) for name, leaf in trees.flatten(params).items()}
