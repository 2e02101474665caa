"""torchvision's names: vit_b_16 to vit_h_14."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.convert.layers import (
    conv,
    dense,
    fused_heads,
    norm,
    out_projection,
    same,
)
from vit_jax.convert.layout import Found
from vit_jax.convert.rules import Rule
from vit_jax.models.spec import VitSpec

_BLOCK = "encoder.layers.encoder_layer_"


def detect(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the names are this layout's."""
    return f"{_BLOCK}0.self_attention.in_proj_weight" in arrays


def read(
    arrays: Mapping[str, np.ndarray],
) -> Found:
    """The model of a state dict.

    Heads are 64 wide, and 80 in vit_h_14, as in all of its models; GELU is exact and
    epsilon 1e-6.
    """
    arrays = {
        re.sub(r"\.linear_([12])\.", lambda m: f".{3 * int(m[1]) - 3}.", name): array
        for name, array in arrays.items()
    }
    width, patch = arrays["conv_proj.weight"].shape[0::3]
    heads = width // 80 if width == 1280 else width // 64
    head, extra = arrays.get("heads.head.bias"), arrays.get("heads.pre_logits.bias")
    numbers = (re.match(re.escape(_BLOCK) + r"(\d+)\.", name) for name in arrays)
    spec = VitSpec(
        width=width,
        depth=1 + max(int(found[1]) for found in numbers if found),
        num_heads=max(1, heads),
        mlp_dim=arrays[f"{_BLOCK}0.mlp.0.bias"].shape[0],
        patch_size=patch,
        gelu="exact",
        representation_size=0 if extra is None else len(extra),
        num_classes=0 if head is None else len(head),
    )
    return Found(spec, arrays, table)


def refusals(spec: VitSpec) -> list[str]:
    """Why torchvision has no such model; [] where it has."""
    heads = spec.width // 80 if spec.width == 1280 else spec.width // 64
    wanted: dict[str, Any] = {
        "stem": "patch",
        "position": "learned_1d",
        "norm": "layer",
        "final_norm": "tokens",
        "pool": "cls",
        "gelu": "exact",
        "num_registers": 0,
        "num_heads": max(1, heads),
        "layer_scale": 0.0,
        "mlp": "plain",
        "window_size": 0,
    }
    wanted |= dict.fromkeys(
        ("stem_bias", "qkv_bias", "out_bias", "mlp_bias", "prefix_positions"), True
    )
    wanted |= dict.fromkeys(("stem_norm", "first_norm", "qk_norm", "inner_norm"), False)
    return [
        f"{name}={getattr(spec, name)!r} must be {value!r}"
        for name, value in wanted.items()
        if getattr(spec, name) != value
    ]


def table(spec: VitSpec) -> list[Rule]:
    """The table of a model."""
    rules = [
        *conv("stem/projection", "conv_proj"),
        same("prefix/class_token", "class_token"),
        same("position/table", "encoder.pos_embedding"),
        *norm("encoder/norm", "encoder.ln"),
    ]
    for layer in range(spec.depth):
        ours, theirs = f"encoder/block_{layer}", f"{_BLOCK}{layer}"
        attention = f"{theirs}.self_attention"
        rules += norm(f"{ours}/attention_norm", f"{theirs}.ln_1")
        rules += fused_heads(
            f"{ours}/attention",
            f"{attention}.in_proj_weight",
            spec.num_heads,
            f"{attention}.in_proj_bias",
        )
        rules += out_projection(
            f"{ours}/attention/out", f"{attention}.out_proj", spec.num_heads
        )
        rules += norm(f"{ours}/mlp_norm", f"{theirs}.ln_2")
        rules += dense(f"{ours}/mlp/hidden", f"{theirs}.mlp.0")
        rules += dense(f"{ours}/mlp/out", f"{theirs}.mlp.3")
    if spec.representation_size:
        rules += dense("pre_logits", "heads.pre_logits")
    return rules + dense("head", "heads.head") if spec.num_classes else rules
