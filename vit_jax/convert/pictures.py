"""What images weights are for, where no file beside them says it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.convert.given import Given
from vit_jax.convert.layout import describe, size_of, stem_stride
from vit_jax.convert.rules import Rule
from vit_jax.convert.timm_models import CLIP, HALF, IMAGENET, pictures_of
from vit_jax.models.spec import ResNetSpec, Spec, VitSpec


def channels_of(rules: Sequence[Rule], arrays: Mapping[str, np.ndarray]) -> int:
    """Of the images: what the first convolution takes."""
    firsts = ("stem/root/kernel", "root/kernel", "stem/projection/kernel")
    for name in firsts:
        rule = next((rule for rule in rules if name in rule.ours), None)
        if rule is not None and rule.theirs[0] in arrays:
            return rule.back([arrays[rule.theirs[0]]])[0].shape[2]
    return 3


def image_size_of(
    spec: VitSpec,
    rules: Sequence[Rule],
    arrays: Mapping[str, np.ndarray],
    preprocessing: Mapping[str, Any] | None,
    given: tuple[int, int] | None,
) -> tuple[int, int]:
    """(rows, columns) of pixels that the position table is for."""
    rule = next((rule for rule in rules if "position/table" in rule.ours), None)
    said = given
    if said is None and preprocessing is not None:
        said = tuple(preprocessing["image_size"])
    if rule is None or any(name not in arrays for name in rule.theirs):
        return said or (spec.image_size, spec.image_size)
    table = rule.back([arrays[name] for name in rule.theirs])[
        rule.ours.index("position/table")
    ]
    slots = spec.num_prefix if spec.prefix_positions else 0
    hybrid = spec.stem == "resnet"
    return size_of(table.shape[1] - slots, said, stem_stride(spec), hybrid)


def assumed(
    layout: str, spec: Spec, size: tuple[int, int], channels: int, given: Given
) -> tuple[dict[str, Any], str]:
    """(preprocessing, note on it) of a bare file, by what its layout's models take.

    The original code scales to -1 … 1 and stretches; torchvision's models have
    ImageNet's statistics and a crop from the centre; timm's name says, where one is
    given, what they have.
    """
    if layout == "npz":
        words: dict[str, Any] = {"mean": HALF[0], "std": HALF[1]}
        why = "the original code"
    elif layout == "torchvision":
        words, why = _of_torchvision(spec, size), "torchvision's models"
    elif given.variant and given.named is None:
        words, why = pictures_of(given.variant), given.variant
    else:
        words, why = _of_timm(spec), "most models of timm's"
    said = [name for name in ("mean", "std") if getattr(given, name) is not None]
    words |= {name: getattr(given, name) for name in said}
    if channels == 1:
        # Statistics of colours say nothing of grey ones.
        words |= {
            name: (float(np.mean(words[name])),)
            for name in ("mean", "std")
            if len(words[name]) != 1
        }
    preprocessing = describe(size, channels=channels, **words)
    note = f"the file doesn't say what images it takes: {in_words(preprocessing)}"
    rest = f"{' and '.join(said)} as given" if said else "mean= and std= say otherwise"
    return preprocessing, f"{note}, as {why}; {rest}"


def in_words(preprocessing: Mapping[str, Any]) -> str:
    """Statistics, resizing and crop in a few words."""
    mean, std = (
        "/".join(f"{value:g}" for value in dict.fromkeys(preprocessing[name]))
        for name in ("mean", "std")
    )
    shape = preprocessing["resize"]
    if shape != "stretch":
        shape = f"{shape} crop of {preprocessing['crop_fraction']:g}"
    return f"mean {mean}, std {std}, {shape}, {preprocessing['interpolation']}"


def _of_torchvision(spec: VitSpec, size: tuple[int, int]) -> dict[str, Any]:
    """As the transforms of its weights: `ViT_B_16_Weights` and so on.

    Those of more than 224 pixels, and H/14's, are SWAG's: no margin, bicubic.
    """
    words = {"mean": IMAGENET[0], "std": IMAGENET[1], "resize": "center"}
    if min(size) != 224 or spec.width == 1280:
        return words | {"crop_fraction": 1.0, "interpolation": "bicubic"}
    margin = 242 if (spec.width, spec.patch_size) == (1024, 16) else 256
    return words | {"crop_fraction": 224 / margin, "interpolation": "bilinear"}


def _of_timm(spec: Spec) -> dict[str, Any]:
    """By what marks a family: DeiT's second token, DINOv2's scales, CLIP's norm."""
    if isinstance(spec, ResNetSpec):
        return {"interpolation": "bilinear", "mean": HALF[0], "std": HALF[1]}
    mean, std = HALF
    if spec.pool == "distilled" or (spec.layer_scale and not spec.first_norm):
        mean, std = IMAGENET
    elif spec.first_norm or spec.stem_norm:
        mean, std = CLIP
    return pictures_of("") | {"mean": mean, "std": std}
