"""What a caller says of weights beside them, and how it goes with what they say."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax.convert.layout import Weights, check_fields
from vit_jax.convert.timm_models import check_size, is_known
from vit_jax.models.spec import Spec, VitSpec
from vit_jax.models.variants import VARIANTS, resolve

# Fields that 0 leaves out, and the parameters that go with them.
_LEFT_OUT = {"num_classes": "head/", "representation_size": "pre_logits/"}
# What the shapes of arrays say of a model: a name must say the same.
_SIZES = (
    "width",
    "depth",
    "num_heads",
    "mlp_dim",
    "patch_size",
    "stem",
    "stem_units",
    "stem_width",
)
# What they don't say, and one of our names does.
_UNSAID = (
    "gelu",
    "norm_epsilon",
    "group_norm_epsilon",
    "conv_epsilon",
    "pool_prefix",
)


@dataclasses.dataclass(frozen=True)
class Given:
    """The caller's words.

    Args:
      variant: a model's name, ours or timm's; None where none is given.
      image_size: (rows, columns) in pixels; None where the file says it.
      fields: of the spec.
      mean, std: of the images; None where the file or its layout says them.
    """

    variant: str | None = None
    image_size: tuple[int, int] | None = None
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls,
        variant: str | None = None,
        image_size: Sequence[int] | None = None,
        fields: Mapping[str, Any] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> "Given":
        """The words, checked as far as they can be without weights.

        Raises:
          ValueError: there is no such model or field.
        """
        check_fields(fields or {})
        if variant and variant not in VARIANTS and not is_known(variant):
            if "/" in variant or variant[:1].isupper():
                # Says which of ours is near.
                resolve(variant, {})
            raise ValueError(
                f"variant={variant} is no model of vit_jax.list_models(), and timm has "
                "no Vision Transformer of that name."
            )
        size = None if image_size is None else (int(image_size[0]), int(image_size[-1]))
        numbers = [None if v is None else tuple(map(float, v)) for v in (mean, std)]
        return cls(variant or None, size, dict(fields or {}), *numbers)

    @property
    def named(self) -> Spec | None:
        """The model of ours that `variant` names."""
        return VARIANTS.get(self.variant or "")

    def unsaid(self) -> dict[str, Any]:
        """Fields that shapes can't say, as our variant and then the caller has them."""
        named = self.named
        fields = {}
        if named is not None:
            fields = {
                key: getattr(named, key) for key in _UNSAID if hasattr(named, key)
            }
        return fields | {k: v for k, v in self.fields.items() if k not in self.left_out}

    @property
    def left_out(self) -> list[str]:
        """Fields with which the caller leaves parameters out."""
        return [name for name in _LEFT_OUT if self.fields.get(name) == 0]

    def check(self, spec: Spec, source: str) -> None:
        """Nothing, where the weights have the size of the name.

        Raises:
          ValueError: lists the sizes that differ.
        """
        if self.named is None:
            if self.variant and isinstance(spec, VitSpec):
                check_size(self.variant, spec, source)
            return
        differing = [
            f"{name}={getattr(spec, name, None)!r}, must be "
            f"{getattr(self.named, name, None)!r}"
            for name in _SIZES
            if getattr(spec, name, None) != getattr(self.named, name, None)
        ]
        if differing:
            raise ValueError(
                f"{source} is no {self.variant}; it has:\n  " + "\n  ".join(differing)
            )


def without(weights: Weights, given: Given) -> Weights:
    """The weights without head or tanh layer, where the caller leaves these out."""
    left = [name for name in given.left_out if getattr(weights.spec, name, 0)]
    if not left:
        return weights
    starts = tuple(_LEFT_OUT[name] for name in left)
    notes = [
        f"{_LEFT_OUT[name].rstrip('/')} of {getattr(weights.spec, name)} left out"
        for name in left
    ]
    params = {k: v for k, v in weights.params.items() if not k.startswith(starts)}
    return dataclasses.replace(
        weights,
        spec=dataclasses.replace(weights.spec, **dict.fromkeys(left, 0)),
        params=params,
        class_names=() if "num_classes" in left else weights.class_names,
        notes=(*weights.notes, *notes),
    )


def held_to(weights: Weights, given: Given, source: str) -> Weights:
    """Weights that say all of themselves, where the caller doesn't say otherwise.

    Raises:
      ValueError: the caller does.
    """
    given.check(weights.spec, source)
    here = vars(weights.spec) | {"image_size": weights.spec.image_size}
    said = {
        f"{name}={value!r}": here.get(name)
        for name, value in given.fields.items()
        if name not in given.left_out and here.get(name) != value
    }
    pictures = weights.preprocessing
    for name in ("image_size", "mean", "std"):
        value = getattr(given, name)
        if value is not None and list(value) != list(pictures[name]):
            said[f"{name}={value!r}"] = pictures[name]
    if said:
        raise ValueError(
            f"{source} says of itself what it is; leave out:\n  "
            + "\n  ".join(f"{word}, it has {there!r}" for word, there in said.items())
        )
    return without(weights, given)
