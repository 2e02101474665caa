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


def load(path: str | os.PathLike) -> Loaded:
    """The model of a training workdir, from its newest complete checkpoint.

    Raises:
      FileNotFoundError: `path` is no workdir, or has no complete checkpoint.
      ValueError: a file in it is damaged.
    """
    workdir = Workdir(path)
    workdir.require()
    section = read_json(workdir.config)["model"]
    preprocessing = workdir.read_preprocessing()
    names = workdir.read_classes()
    model = build_model(section, num_classes=section["num_classes"])
    images = jnp.zeros((1, *preprocessing["image_size"], preprocessing["channels"]))
    abstract = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
    step, params = restore_params(workdir.checkpoints, abstract)
    return Loaded(model, params, preprocessing, names, step)


def build_model(
    section: Mapping[str, Any], *, num_classes: int, dtype: jnp.dtype = jnp.float32
) -> nn.Module:
    """The model that a config's `model` group describes.

    Raises:
      ValueError: a value is wrong, or two do not go together.
    """
    fields = {key: value for key, value in section.items() if key not in _NOT_FIELDS}
    return create_model(
        section["variant"], num_classes=num_classes, dtype=dtype, **fields
    )


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
