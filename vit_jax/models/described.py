"""Models that a config's `model` group describes, and the shapes of their weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vit_jax import trees
from vit_jax.models.factory import create_model

# Entries of a config's model group that describe the data, not a field of the model.
_NOT_FIELDS = ("variant", "image_size", "channels", "num_classes")


def build_model(
    section: Mapping[str, Any],
    *,
    num_classes: int,
    dtype: jnp.dtype = jnp.float32,
    scan: bool = False,
    remat: str = "none",
) -> nn.Module:
    """The model that a config's `model` group describes; see `create_model`.

    Raises:
      ValueError: a value is wrong, or two do not go together.
    """
    return create_model(
        section["variant"],
        num_classes=num_classes,
        dtype=dtype,
        scan=scan,
        remat=remat,
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
    key = jax.eval_shape(jax.random.key, 0)
    return jax.eval_shape(model.init, key, image)["params"]


def trained_shape(
    stored: Mapping[str, tuple[int, ...]],
    model: nn.Module,
    shapes: list[tuple[int, int, int]],
) -> tuple[int, int, int]:
    """The first image shape for which the model has the stored parameters' shapes.

    The first of all where none fits: what doesn't is then said by who restores.

    Args:
      stored: name -> shape, of a checkpoint.
      model: a model for any of the shapes.
      shapes: (rows, columns, channels).
    """
    for shape in shapes:
        wanted = trees.flatten(abstract_params(model, shape))
        if all(stored.get(name) == leaf.shape for name, leaf in wanted.items()):
            return shape
    return shapes[0]


def grid_of(model: nn.Module, image_size: Sequence[int]) -> tuple[int, int]:
    """(rows, columns) of patches of an image; (0, 0) for a model without patches."""
    if not hasattr(model, "grid_shape"):
        return (0, 0)
    return model.grid_shape((image_size[0], image_size[1]))
