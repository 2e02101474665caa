"""Whether a spec describes a model that can be built."""

import dataclasses
import typing
from typing import Any

from vit_jax.models.spec import CLASS_TOKEN_POOLS, ResNetSpec, Spec, VitSpec

_RATES = ("dropout", "attention_dropout", "stochastic_depth", "patch_dropout")
_AT_LEAST_ONE = (
    "width",
    "depth",
    "num_heads",
    "mlp_dim",
    "patch_size",
    "stem_width",
    "image_size",
)

# Rows and columns have a half each; of waves, a half of that is sines.
_POSITION_MULTIPLES = {"learned_2d": 2, "sincos_2d": 4, "sincos_2d_mae": 4}


def check(spec: Spec) -> None:
    """Nothing, where the model can be built.

    Raises:
      ValueError: lists every field that can't work, with what must hold.
    """
    faults = [
        fault for field in dataclasses.fields(spec) for fault in _field(spec, field)
    ]
    if not faults and isinstance(spec, VitSpec):
        faults = _together(spec)
    if faults:
        raise ValueError("\n".join(faults))


def _field(spec: Spec, field: dataclasses.Field) -> list[str]:
    """What is wrong with one field by itself."""
    value, name = getattr(spec, field.name), field.name
    hint = typing.get_type_hints(type(spec))[name]
    if not _is_a(value, hint):
        return [f"{name}={value!r} must be of type {getattr(hint, '__name__', hint)}."]
    choices = field.metadata.get("choices")
    if choices and value not in choices:
        return [f"{name}={value!r} must be one of {', '.join(map(repr, choices))}."]
    if name in _RATES and not 0 <= value < 1:
        return [f"{name}={value} must be from 0 to less than 1."]
    if name in _AT_LEAST_ONE and value < 1:
        return [f"{name}={value} must be at least 1."]
    if name == "stem_width" and value % 32:
        return [f"{name}={value} must be a multiple of 32, for group norm."]
    numbers = value if isinstance(value, tuple) else (value,)
    is_number = all(isinstance(number, int | float) for number in numbers)
    if name != "head_bias_init" and is_number and any(number < 0 for number in numbers):
        return [f"{name}={value} must be at least 0."]
    return []


def _is_a(value: Any, hint: Any) -> bool:
    if hint == tuple[int, ...]:
        return isinstance(value, tuple) and all(type(item) is int for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _together(spec: VitSpec) -> list[str]:
    """What is wrong with fields taken together."""
    needs_place = spec.position in ("relative", "rope") or spec.window_size
    power_of_two = spec.patch_size & (spec.patch_size - 1) == 0
    rules = [
        (
            spec.width % spec.num_heads == 0,
            f"width={spec.width} must be a multiple of num_heads={spec.num_heads}.",
        ),
        (
            spec.width % _POSITION_MULTIPLES.get(spec.position, 1) == 0,
            f"width={spec.width} must be a multiple of "
            f"{_POSITION_MULTIPLES.get(spec.position)} for position="
            f"{spec.position!r}.",
        ),
        (
            spec.position != "rope" or spec.width // spec.num_heads % 4 == 0,
            f"width={spec.width} / num_heads={spec.num_heads} must be a multiple of 4 "
            "for position='rope'.",
        ),
        (
            spec.pool not in CLASS_TOKEN_POOLS or spec.has_class_token,
            f"pool={spec.pool!r} needs a class token; class_token=False.",
        ),
        (
            spec.pool != "distilled" or spec.num_registers,
            "pool='distilled' reads the first register token as the distillation "
            "token; num_registers=0 must be 1 or more.",
        ),
        (
            not (spec.pool == "distilled" and spec.representation_size),
            "pool='distilled' has a head for each token; representation_size="
            f"{spec.representation_size} must be 0.",
        ),
        (
            not spec.stem_norm or spec.stem == "patch",
            f"stem_norm goes with stem='patch', not {spec.stem!r}.",
        ),
        (
            spec.stem != "conv" or (power_of_two and spec.patch_size > 1),
            f"stem='conv' halves images; patch_size={spec.patch_size} must be a power "
            "of two from 2.",
        ),
        (
            spec.stem == "resnet" or spec.stem_width == 64,
            f"stem_width={spec.stem_width} goes with stem='resnet', not {spec.stem!r}.",
        ),
        (
            spec.stem == "resnet" or not spec.stem_units,
            f"stem_units={spec.stem_units} must be () for stem={spec.stem!r}.",
        ),
        (
            not (spec.patch_dropout and needs_place),
            "patch_dropout breaks the grid that window_size, position='relative' and "
            "'rope' need; set it to 0.",
        ),
        (
            spec.window_size or not spec.global_every,
            f"global_every={spec.global_every} must be 0 without windows; set "
            "window_size.",
        ),
        (
            spec.global_every <= spec.depth,
            f"global_every={spec.global_every} must be at most depth={spec.depth}, or "
            "0 for windows alone.",
        ),
    ]
    return [fault for holds, fault in rules if not holds]


def check_run(spec: Spec, scan: bool, remat: str) -> None:
    """Nothing, where the model can run that way.

    Raises:
      ValueError: a scan needs whole turns of windowed and global layers; a ResNet has
        no layers of an encoder.
    """
    if isinstance(spec, ResNetSpec):
        if scan or remat != "none":
            raise ValueError(
                f"scan={scan} and remat={remat!r} are of encoders' layers, which a "
                "ResNet has none of; they must be False and 'none'."
            )
        return
    period = spec.global_every or 1
    if scan and spec.depth % period:
        raise ValueError(
            f"scan=True needs depth={spec.depth} to be a multiple of "
            f"global_every={period}."
        )
