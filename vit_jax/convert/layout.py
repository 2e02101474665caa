"""What every layout's reader gives: a model in our names, and what is known of it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vit_jax import trees
from vit_jax.convert.rules import Rule
from vit_jax.data import preprocess
from vit_jax.data.transforms import EvalTransform
from vit_jax.models.described import abstract_params
from vit_jax.models.factory import create_model
from vit_jax.models.spec import ResNetSpec, Spec, VitSpec
from vit_jax.models.variants import as_overrides


@dataclasses.dataclass(frozen=True)
class Weights:
    """A model's weights in our names, with all that was found beside them.

    Args:
      layout: where they come from: "npz", "timm", "huggingface", "torchvision" or
        "orbax".
      spec: the model.
      params: our flat name -> array.
      preprocessing: as `vit_jax.data.preprocess` takes it.
      class_names: in the order of the logits; () where nothing names them.
      step: optimizer steps behind them; 0 where nothing says.
      notes: what a reader should know: what was folded, left out or assumed.
      loss: that trained them, "softmax" or "sigmoid": how logits become probabilities.
      place: where they were read; "" where that is no place on disk.
    """

    layout: str
    spec: Spec
    params: dict[str, np.ndarray]
    preprocessing: dict[str, Any]
    class_names: tuple[str, ...] = ()
    step: int = 0
    notes: tuple[str, ...] = ()
    loss: str = "softmax"
    place: str = ""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(rows, columns, channels) of the images they are for."""
        rows, columns = self.preprocessing["image_size"]
        return rows, columns, self.preprocessing["channels"]


class Found(NamedTuple):
    """What a layout's reader makes of names and shapes.

    Args:
      spec: the model.
      arrays: by the names that the table has.
      table: the rules for a spec; the caller may know the spec better.
      notes: what was assumed or left out.
    """

    spec: Spec
    arrays: dict[str, np.ndarray]
    table: Callable[[Any], list[Rule]]
    notes: tuple[str, ...] = ()


def build(spec: Spec, **options: Any) -> Any:
    """The model of a spec; `options` as of `create_model`."""
    name, overrides = as_overrides(spec)
    return create_model(name, **overrides, **options)


def shapes_of(
    spec: Spec, image_shape: tuple[int, int, int]
) -> dict[str, tuple[int, ...]]:
    """Our flat parameter name -> shape; nothing is computed.

    Raises:
      ValueError: the spec describes no model, or the images don't fit it.
    """
    flat = trees.flatten(abstract_params(build(spec), image_shape))
    return {name: leaf.shape for name, leaf in flat.items()}


def describe(
    image_size: tuple[int, int],
    *,
    channels: int = 3,
    mean: Sequence[float] = (0.5,),
    std: Sequence[float] = (0.5,),
    resize: str = "stretch",
    crop_fraction: float = 1.0,
    interpolation: str = "bilinear",
) -> dict[str, Any]:
    """A preprocessing description; means and deviations of one number hold for all."""
    return preprocess.describe(
        EvalTransform(tuple(image_size), resize, crop_fraction, interpolation),
        channels=channels,
        mean=tuple(map(float, mean)),
        std=tuple(map(float, std)),
    )


def size_of(
    rows: int, image_size: Sequence[int] | None, patch: int, rounds_up: bool
) -> tuple[int, int]:
    """(rows, columns) of the images that a position table is for.

    Args:
      rows: of the table, prefix left out.
      image_size: where it is known, so that a rectangle can be told.
      patch: pixels between tokens.
      rounds_up: whether images that are no multiple of it fit (hybrids).

    Raises:
      ValueError: they are no square, and the image size doesn't say otherwise.
    """
    if image_size is not None:
        above = [-(-side // patch) for side in image_size]
        if rounds_up and above[0] * above[1] == rows:
            return image_size[0], image_size[1]
        grid = [side // patch for side in image_size]
        if grid[0] * grid[1] == rows:
            return grid[0] * patch, grid[1] * patch
    side = round(rows**0.5)
    if side * side != rows:
        said = f" and not that of image_size={tuple(image_size)}" if image_size else ""
        raise ValueError(
            f"the position table has {rows} rows for patches, which is no square grid"
            f"{said}; give image_size=(rows, columns) in pixels (--image_size)."
        )
    return side * patch, side * patch


def check_fields(fields: Mapping[str, Any]) -> None:
    """Nothing, where all of them are fields of a Vision Transformer's spec.

    Raises:
      ValueError: there is no such field.
    """
    unknown = sorted(fields.keys() - {f.name for f in dataclasses.fields(VitSpec)})
    if unknown:
        raise ValueError(
            f"models have no field {', '.join(unknown)}; fields are those of "
            "vit_jax.models.spec.VitSpec."
        )


def stem_stride(spec: Spec) -> int:
    """Pixels between two tokens."""
    if isinstance(spec, ResNetSpec):
        return 32
    if spec.stem == "resnet":
        return spec.patch_size * 2 ** (2 + max(0, len(spec.stem_units) - 1))
    return spec.patch_size
