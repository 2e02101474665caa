"""What a layout's reader would take a written model for, where that is another."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vit_jax.convert import official, timm, timm_resnet, torchvision
from vit_jax.convert.given import Given
from vit_jax.convert.layout import Found, Weights, stem_stride
from vit_jax.convert.pictures import assumed, in_words
from vit_jax.models.spec import FREE_OF_WEIGHTS, ResNetSpec, Spec, VitSpec


def differences(spec: Spec, found: Spec) -> dict[str, tuple[Any, Any]]:
    """Field -> (what it is, what it was found to be), of those that change logits."""
    ours, theirs = _canonical(spec), _canonical(found)
    return {
        name: (value, theirs[name])
        for name, value in ours.items()
        if theirs[name] != value
    }


def of_file(
    weights: Weights, layout: str, arrays: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    """Notes on what a bare file of these arrays can't say."""
    if layout == "huggingface":
        return (
            "a file of Hugging Face's names says nothing of heads, GELU and epsilon; "
            "to be read it needs a config.json beside it (give a folder as DEST)",
        )
    spec, size = weights.spec, tuple(weights.preprocessing["image_size"])
    told: dict[str, Any] = {}
    rows, columns = (side // stem_stride(spec) for side in size)
    if rows != columns and not isinstance(spec, ResNetSpec):
        told["image_size"] = size
    found, heads = _found(layout, arrays, spec, told.get("image_size"))
    told |= heads | {k: v[0] for k, v in differences(spec, found).items()}
    channels = weights.preprocessing["channels"]
    pictures, _ = assumed(layout, found, size, channels, Given())
    notes = []
    if told:
        words = ", ".join(f"{key}={value!r}" for key, value in told.items())
        notes.append(f"the file can't say {words}; say it where it is read")
    if in_words(pictures) != in_words(weights.preprocessing):
        notes.append(
            "the file can't say what images it takes, which is "
            f"{in_words(weights.preprocessing)}; it reads back as {in_words(pictures)}"
        )
    lost = ["class names"] if weights.class_names else []
    lost += ["the sigmoid loss"] if weights.loss == "sigmoid" else []
    if lost:
        notes.append(f"the file can't say {' and '.join(lost)}")
    return tuple(notes)


def _found(
    layout: str,
    arrays: Mapping[str, np.ndarray],
    spec: Spec,
    size: tuple[int, int] | None,
) -> tuple[Spec, dict[str, Any]]:
    """(the model that is found without a word, fields without which none is)."""
    if isinstance(spec, ResNetSpec):
        return timm_resnet.read(arrays).spec, {}
    readers: dict[str, Callable[[dict[str, Any]], Found]] = {
        "npz": lambda _: official.read(arrays),
        "torchvision": lambda _: torchvision.read(arrays),
        "timm": lambda fields: timm.read(arrays, "", {}, fields, size),
    }
    try:
        return readers[layout]({}).spec, {}
    except ValueError:
        heads = {"num_heads": spec.num_heads}
        return readers[layout](heads).spec, heads


def _canonical(spec: Spec) -> dict[str, Any]:
    """Fields that change logits; those without effect here have a fixed value."""
    # The size of images is said beside the spec.
    ignored = (*FREE_OF_WEIGHTS, "image_size")
    fields = {k: v for k, v in vars(spec).items() if k not in ignored}
    if not isinstance(spec, VitSpec):
        return fields
    fields["class_token"] = spec.has_class_token
    fields["layer_scale"] = bool(spec.layer_scale)
    if spec.position != "learned_1d" or not spec.num_prefix:
        fields["prefix_positions"] = True
    if spec.stem != "resnet":
        fields["conv_epsilon"] = fields["group_norm_epsilon"] = 0.0
    else:
        fields["stem_bias"] = True
    if spec.mlp == "swiglu":
        fields["gelu"] = "exact"
    if spec.pool not in ("gap", "map") or not spec.num_prefix:
        fields["pool_prefix"] = False
    return fields
