"""A model that was found in a file, completed to weights in our names."""

import dataclasses
from typing import Any

from vit_jax import trees
from vit_jax.convert.given import Given, without
from vit_jax.convert.layout import Found, Weights, shapes_of
from vit_jax.convert.pictures import assumed, channels_of, image_size_of
from vit_jax.convert.rules import folds, to_ours
from vit_jax.models.adapt import ZERO_HEAD_NOTE, head_is_zero


@dataclasses.dataclass(frozen=True)
class Beside:
    """What is known of a file's model from elsewhere than its arrays."""

    preprocessing: dict[str, Any] | None = None
    class_names: tuple[str, ...] = ()
    loss: str = "softmax"
    notes: tuple[str, ...] = ()


def completed(
    layout: str,
    source: str,
    found: Found,
    beside: Beside,
    given: Given,
    *,
    take: bool = False,
) -> Weights:
    """The weights in our names: what was found, put right by what the caller says."""
    kept = {k: v for k, v in given.unsaid().items() if hasattr(found.spec, k)}
    if layout == "huggingface":
        kept = {}
    spec, arrays = dataclasses.replace(found.spec, **kept), found.arrays
    given.check(spec, source)
    rules = found.table(spec)
    channels = channels_of(rules, arrays)
    size = image_size_of(spec, rules, arrays, beside.preprocessing, given.image_size)
    notes = [*found.notes, *folds(rules), *beside.notes]
    preprocessing = beside.preprocessing
    if preprocessing is None:
        preprocessing, note = assumed(layout, spec, size, channels, given)
        notes.append(note)
    else:
        preprocessing = _statistics(preprocessing, given)
    preprocessing = preprocessing | {"image_size": list(size)}
    names = beside.class_names
    if names and len(names) != spec.num_classes:
        notes.append(
            f"class names left out: there are {len(names)} for {spec.num_classes} "
            "classes"
        )
        names = ()
    shapes = shapes_of(spec, (*size, channels))
    params = to_ours(rules, arrays, shapes, source=source, take=take)
    spec = dataclasses.replace(spec, image_size=size[0])
    weights = Weights(
        layout, spec, params, preprocessing, names, 0, tuple(notes), beside.loss
    )
    weights = without(weights, given)
    if head_is_zero(trees.unflatten(weights.params)):
        weights = dataclasses.replace(weights, notes=(*weights.notes, ZERO_HEAD_NOTE))
    return weights


def _statistics(preprocessing: dict[str, Any], given: Given) -> dict[str, Any]:
    """With the caller's mean and deviation in the place of the file's."""
    channels = preprocessing["channels"]
    said = {name: getattr(given, name) for name in ("mean", "std")}
    return preprocessing | {
        name: list(values) * channels if len(values) == 1 else list(values)
        for name, values in said.items()
        if values is not None
    }
