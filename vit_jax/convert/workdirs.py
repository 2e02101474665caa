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
from vit_jax.models.spec import ResNetSpec, Spec, VitSpec
from vit_jax.workdir import Workdir, read_json

_KINDS = {"vit": VitSpec, "resnet": ResNetSpec}
_LOSSES = ("softmax", "sigmoid")
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
        preprocessing = workdir.read_preprocessing()
        check_preprocessing(preprocessing)
        loss = _loss(said)
        shape = (*preprocessing["image_size"], preprocessing["channels"])
        abstract = _abstract(spec, shape, said["dtypes"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path / MODEL} or preprocessing.json beside it is damaged: {error}; "
            "convert the model again."
        ) from error
    names = workdir.read_classes()
    step, params = restore_params(workdir.checkpoints, abstract)
    if names and len(names) != spec.num_classes:
        raise ValueError(
            f"{workdir.classes} is damaged: it has {len(names)} lines for a model of "
            f"{spec.num_classes} classes; convert the model again."
        )
    params = _on_host(params)
    return Weights("orbax", spec, params, preprocessing, names, step, (), loss)


def write_model(path: epath.Path, weights: Weights) -> None:
    """Fills a folder: `model.json`, preprocessing, class names and a checkpoint."""
    workdir = Workdir(path)
    path.mkdir(parents=True, exist_ok=True)
    said = {
        "kind": kind_of(weights.spec),
        "fields": dataclasses.asdict(weights.spec),
        "loss": weights.loss,
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


@dataclasses.dataclass(frozen=True)
class Said:
    """What a safetensors file that we wrote says of its model in its metadata."""

    layout: str
    spec: Spec
    preprocessing: dict[str, Any]
    class_names: tuple[str, ...]
    loss: str


def described(weights: Weights, layout: str) -> str:
    """The text that `parse` reads."""
    return json.dumps(
        {
            "layout": layout,
            "kind": kind_of(weights.spec),
            "fields": dataclasses.asdict(weights.spec),
            "preprocessing": weights.preprocessing,
            "class_names": weights.class_names,
            "loss": weights.loss,
        }
    )


def parse(text: str, source: str) -> Said:
    """What `described` said.

    Raises:
      ValueError: it is no such text, or describes no model.
    """
    try:
        said = json.loads(text)
        spec = spec_of(said["kind"], said["fields"])
        names = said["class_names"]
        check_preprocessing(said["preprocessing"])
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise ValueError("class_names must be a list of names")
        return Said(
            said["layout"], spec, said["preprocessing"], tuple(names), _loss(said)
        )
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"the description in {source}'s metadata is damaged: {reason}; convert the "
            "model again."
        ) from error


def kind_of(spec: Spec) -> str:
    """The spec's class in a word."""
    return next(kind for kind, cls in _KINDS.items() if isinstance(spec, cls))


def spec_of(kind: str, fields: Mapping[str, Any]) -> Spec:
    """The spec that `kind_of` and its fields described.

    Raises:
      KeyError, TypeError, ValueError: they describe none.
    """
    spec = _KINDS[kind](**fields_of(fields))
    check(spec)
    return spec


def fields_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as a spec has them; JSON knows no tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def _loss(said: Mapping[str, Any]) -> str:
    loss = said.get("loss", "softmax")
    if loss not in _LOSSES:
        raise ValueError(f"loss={loss!r} must be one of {', '.join(_LOSSES)}")
    return loss


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
