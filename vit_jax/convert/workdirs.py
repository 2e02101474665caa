"""Our own folders: a training run's workdir, and a converted model's."""

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
from vit_jax.models.checks import check
from vit_jax.models.variants import ResNetSpec, Spec, VitSpec, resolve
from vit_jax.workdir import Workdir, read_json

# Entries of a config's model group that describe the data, not a field of the model.
_NOT_FIELDS = ("variant", "image_size", "channels", "num_classes")
_KINDS = {"vit": VitSpec, "resnet": ResNetSpec}
MODEL = "model.json"


def model_fields(section: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of `create_model` in a config's `model` group; None is the variant's."""
    return {key: value for key, value in section.items() if key not in _NOT_FIELDS}


def read_run(path: epath.Path) -> Weights:
    """The weights of a training workdir's newest complete checkpoint, those alone.

    Raises:
      FileNotFoundError: `path` is no workdir, or has no complete checkpoint.
      ValueError: a file in it is damaged.
    """
    workdir = Workdir(path)
    workdir.require()
    config = read_json(workdir.config)
    try:
        section, dtype = config["model"], config["train"]["compute_dtype"]
        num_classes = section["num_classes"]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{workdir.config} is not the config of a run: it lacks {error}; restore "
            "it from a copy."
        ) from error
    preprocessing = workdir.read_preprocessing()
    names = workdir.read_classes()
    if not 0 < len(names) <= num_classes:
        raise ValueError(
            f"{workdir.classes} is damaged: it has {len(names)} lines for a model of "
            f"{num_classes} classes; restore it from a copy."
        )
    try:
        fields = model_fields(section) | {"num_classes": num_classes}
        spec = resolve(section["variant"], fields)
        check(spec)
        shape = (*preprocessing["image_size"], preprocessing["channels"])
        abstract = _abstract(spec, shape)
        dtype = jnp.dtype(dtype).name
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{workdir.config} or {workdir.preprocessing.name} beside it is damaged: "
            f"{error}; restore it from a copy."
        ) from error
    step, params = restore_params(workdir.checkpoints, abstract)
    flat = _on_host(params)
    return Weights("orbax", spec, flat, preprocessing, names, step, dtype=dtype)


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
    checkpoints.save(weights.step, params, {"step": np.asarray(weights.step)})
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
