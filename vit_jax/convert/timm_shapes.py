"""What names and shapes of timm's arrays say of the model."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.models.spec import CLASS_TOKEN_POOLS

BACKBONE = "patch_embed.backbone"


def fields_of(
    arrays: Mapping[str, np.ndarray],
    width: int,
    image_size: Sequence[int] | None,
    pool: str | None,
) -> dict[str, Any]:
    """Fields of the spec that names and shapes say; `pool` where it is known."""
    block, patch = "blocks.0", arrays["patch_embed.proj.weight"].shape[-1]
    fields = _mlp_shapes(arrays, f"{block}.mlp") | _output(arrays)
    fields["pool"] = pool or fields["pool"]
    depth = 1 + max(int(m[1]) for n in arrays if (m := re.match(r"blocks\.(\d+)", n)))
    registers = arrays.get("reg_token", arrays.get("dist_token"))
    fields["num_registers"] = 0 if registers is None else registers.shape[1]
    has_class = "cls_token" in arrays
    needs_class = fields["pool"] in CLASS_TOKEN_POOLS
    fields["class_token"] = None if has_class == needs_class else has_class
    position, slots = arrays.get("pos_embed"), True
    if position is not None:
        prefix = has_class + fields["num_registers"]
        slots = _has_slots(position, prefix, image_size, patch)
    fields["position"] = "none" if position is None else "learned_1d"
    return (
        fields
        | {
            "width": width,
            "depth": depth,
            "patch_size": patch,
            "prefix_positions": slots,
            "stem_bias": "patch_embed.proj.bias" in arrays,
            "stem_norm": "patch_embed.norm.weight" in arrays,
            "norm": "layer" if f"{block}.norm1.bias" in arrays else "rms",
            "first_norm": "norm_pre.weight" in arrays,
            "qkv_bias": f"{block}.attn.qkv.bias" in arrays,
            "out_bias": f"{block}.attn.proj.bias" in arrays,
            "qk_norm": f"{block}.attn.q_norm.weight" in arrays,
            "inner_norm": f"{block}.attn.norm.weight" in arrays,
            "layer_scale": 1e-5 if f"{block}.ls1.gamma" in arrays else 0.0,
        }
        | _hybrid(arrays)
    )


def _has_slots(
    position: np.ndarray, prefix: int, image_size: Sequence[int] | None, patch: int
) -> bool:
    """Whether the table has rows for the prefix: as that makes the patches fit."""
    rows = position.shape[1]
    if image_size is not None:
        return rows != (image_size[0] // patch) * (image_size[1] // patch)
    with_slots, without = round((rows - prefix) ** 0.5), round(rows**0.5)
    return with_slots**2 == rows - prefix or without**2 != rows


def _mlp_shapes(arrays: Mapping[str, np.ndarray], mlp: str) -> dict[str, Any]:
    out = arrays[f"{mlp}.fc2.weight"]
    hidden = arrays.get(f"{mlp}.fc1.weight")
    gated = hidden is None or hidden.shape[0] == 2 * out.shape[1]
    return {
        "mlp_dim": out.shape[1],
        "mlp": "swiglu" if gated else "plain",
        "mlp_bias": f"{mlp}.fc2.bias" in arrays,
    }


def _output(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    head, pre_logits = arrays.get("head.bias"), arrays.get("pre_logits.fc.bias")
    if "dist_token" in arrays:
        pool = "distilled"
    elif "attn_pool.latent" in arrays:
        pool = "map"
    else:
        mean = "fc_norm.weight" in arrays or "cls_token" not in arrays
        pool = "gap" if mean else "cls"
    final = "tokens" if "norm.weight" in arrays else "none"
    return {
        "pool": pool,
        "final_norm": "pooled" if "fc_norm.weight" in arrays else final,
        "num_classes": 0 if head is None else len(head),
        "representation_size": 0 if pre_logits is None else len(pre_logits),
        "gelu": "exact",
    }


def _hybrid(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    names = (f"{BACKBONE}.conv.weight", f"{BACKBONE}.stem.conv.weight")
    roots = [arrays[name] for name in names if name in arrays]
    if not roots:
        return {}
    pattern = re.compile(re.escape(BACKBONE) + r"\.stages\.(\d+)\.blocks\.(\d+)\.")
    units: dict[int, int] = {}
    for name in arrays:
        if found := pattern.match(name):
            stage, unit = int(found[1]), int(found[2])
            units[stage] = max(units.get(stage, 0), unit + 1)
    return {
        "stem": "resnet",
        "stem_units": tuple(units[stage] for stage in sorted(units)),
        "stem_width": roots[0].shape[0],
        "stem_bias": True,
        # timm's 1e-8 lies inside the square root: as good as nothing.
        "conv_epsilon": 0.0,
        "group_norm_epsilon": 1e-5,
    }
