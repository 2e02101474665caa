"""timm's names of the BiT ResNets, `resnetv2_*_bit`."""

import re
from collections.abc import Mapping

import numpy as np

from vit_jax.convert.layers import conv, norm, same
from vit_jax.convert.layout import Found
from vit_jax.convert.rules import Arrays, Rule
from vit_jax.models.spec import ResNetSpec


def detect(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the names are this layout's."""
    return {"stem.conv.weight", "stages.0.blocks.0.conv3.weight"} <= arrays.keys()


def read(arrays: Mapping[str, np.ndarray]) -> Found:
    """The model of a state dict; timm's epsilon of 1e-8 lies inside the root."""
    units: dict[int, int] = {}
    for name in arrays:
        if found := re.match(r"stages\.(\d+)\.blocks\.(\d+)\.", name):
            stage, unit = int(found[1]), int(found[2])
            units[stage] = max(units.get(stage, 0), unit + 1)
    head = arrays.get("head.fc.bias")
    spec = ResNetSpec(
        stem_units=tuple(units[stage] for stage in sorted(units)),
        stem_width=arrays["stem.conv.weight"].shape[0],
        conv_epsilon=0.0,
        num_classes=0 if head is None else len(head),
    )
    return Found(spec, dict(arrays), table)


def table(spec: ResNetSpec) -> list[Rule]:
    """The table of a model; its head is a 1 x 1 convolution there."""
    rules = [*conv("root", "stem.conv", bias=False), *norm("norm", "norm")]
    for stage, count in enumerate(spec.stem_units):
        for unit in range(count):
            rules += _unit(stage, unit)
    if not spec.num_classes:
        return rules
    kernel = Rule(("head/kernel",), ("head.fc.weight",), _head_there, _head_back)
    return [*rules, kernel, same("head/bias", "head.fc.bias")]


def _unit(stage: int, unit: int) -> list[Rule]:
    ours, theirs = f"stages/stage_{stage}_unit_{unit}", f"stages.{stage}.blocks.{unit}"
    rules = []
    for number in (1, 2, 3):
        rules += conv(f"{ours}/conv{number}", f"{theirs}.conv{number}", bias=False)
        rules += norm(f"{ours}/norm{number}", f"{theirs}.norm{number}")
    if unit == 0:
        rules += conv(f"{ours}/shortcut", f"{theirs}.downsample.conv", bias=False)
    return rules


def _head_there(arrays: Arrays) -> Arrays:
    return [arrays[0].T[:, :, None, None]]


def _head_back(arrays: Arrays) -> Arrays:
    return [arrays[0][:, :, 0, 0].T]
