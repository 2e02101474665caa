"""From what lies on disk to a model ready to use."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vit_jax.checkpoint import restore_params
from vit_jax.layers.normalize import normalize
from vit_jax.models.factory import create_model
from vit_jax.workdir import Workdir, read_json

# Entries of a config's model group that describe the data, not a field of the model.
_NOT_FIELDS = ("variant", "image_size", "channels", "num_classes")


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A trained model.

    Args:
      model: `model.apply({"params": params}, images)` gives logits [B, V].
      params: its weights.
      preprocessing: how an image file becomes the model's input.
      class_names: in the order of the logits.
      step: optimizer steps that the weights have behind them.
    """

    model: nn.Module
    params: Any
    preprocessing: dict[str, Any]
    class_names: tuple[str, ...]
    step: int


def load(path: str | os.PathLike, *, ema: bool = True) -> Loaded:
    """The model of a training workdir, from its newest complete checkpoint.

    Args:
      path: the run's folder.
      ema: whether to take the weights' moving average where the run keeps one
        (train.ema_decay); False: the weights themselves.

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
        model = build_model(section, num_classes=num_classes, dtype=jnp.dtype(dtype))
        shape = (*preprocessing["image_size"], preprocessing["channels"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{workdir.config} or {workdir.preprocessing.name} beside it is damaged: "
            f"{error}; restore it from a copy."
        ) from error
    step, params = restore_params(
        workdir.checkpoints, abstract_params(model, shape), ema=ema
    )
    return Loaded(model, params, preprocessing, names, step)


def build_model(
    section: Mapping[str, Any], *, num_classes: int, dtype: jnp.dtype = jnp.float32
) -> nn.Module:
    """The model that a config's `model` group describes.

    Raises:
      ValueError: a value is wrong, or two do not go together.
    """
    return create_model(
        section["variant"],
        num_classes=num_classes,
        dtype=dtype,
        **model_fields(section),
    )


def model_fields(section: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of `create_model` in a config's `model` group; None is the variant's."""
    return {key: value for key, value in section.items() if key not in _NOT_FIELDS}


def abstract_params(model: nn.Module, image_shape: tuple[int, int, int]) -> Any:
    """Tree of `jax.ShapeDtypeStruct` of a model's weights; nothing is computed.

    Args:
      image_shape: (rows, columns, channels).

    Raises:
      ValueError: the image doesn't fit the model.
    """
    image = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    return jax.eval_shape(model.init, jax.random.key(0), image)["params"]


def make_logits(
    model: nn.Module, preprocessing: Mapping[str, Any]
) -> Callable[[Any, jax.Array], jax.Array]:
    """(params, uint8 images [B, Y, X, C]) -> logits [B, V]; to be jitted by the caller.

    Args:
      preprocessing: has "mean" and "std" of each channel, on a scale from 0 to 1.
    """

    def logits_of(params: Any, images: jax.Array) -> jax.Array:
        floats = normalize(images, preprocessing["mean"], preprocessing["std"])
        return model.apply({"params": params}, floats)

    return logits_of
