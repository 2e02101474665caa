"""From what lies on disk to a model ready to use."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vit_jax import trees
from vit_jax.convert.layout import build
from vit_jax.convert.source import read
from vit_jax.convert.workdirs import model_fields
from vit_jax.layers.normalize import normalize
from vit_jax.models.factory import create_model


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


def load(
    path: str | os.PathLike,
    *,
    variant: str | None = None,
    image_size: Sequence[int] | None = None,
    **fields: Any,
) -> Loaded:
    """The model at `path`, whatever layout it is in, ready to use.

    Args:
      path: a training workdir (its newest complete checkpoint), a folder or a file that
        `vit_jax convert` reads.
      variant, image_size, **fields: what a file can't say of itself, as
        `vit_jax.convert.source.read` takes it.

    Raises:
      FileNotFoundError: nothing is there, or the workdir has no complete checkpoint.
      ValueError: it is no known layout, doesn't fit the model, or is damaged.
    """
    weights = read(path, variant=variant, image_size=image_size, **fields)
    count = weights.spec.num_classes
    names = weights.class_names or tuple(map(str, range(count)))
    return Loaded(
        model=build(weights.spec, dtype=jnp.dtype(weights.dtype)),
        params=jax.tree.map(jnp.asarray, trees.unflatten(weights.params)),
        preprocessing=weights.preprocessing,
        class_names=names,
        step=weights.step,
    )


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
