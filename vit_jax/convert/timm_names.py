"""What timm's architecture names say that the shapes of weights don't."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.models.spec import VitSpec

# SigLIP weights whose GELU is the tanh form; the other SigLIP names have the exact one.
_TANH = re.compile(
    r"vit_base_patch32_siglip_(gap_)?256|vit_large_patch16_siglip_(gap_)?512|"
    r"vit_so400m_patch16_siglip_.*|vit_giantopt_patch16_siglip_.*"
)
_EPSILON = re.compile(r".*_clip_.*|beit3_.*|aimv2_.*")
# Heads where they are not 64 wide (80, 72, 88, 104, … by width: `guessed_heads`).
_HEADS = (
    (r"vit_giantopt_.*", 16),
    (r"vit_base_patch16_gap_224", 16),
    (r"test_vit2?", 2),
    (r"test_vit[34]", 3),
)
_GELU_OF = {
    "gelu": "exact",
    "gelu_tanh": "tanh",
    "quick_gelu": "quick",
    # The activation of a SwiGLU's gate, which `timm.read` refuses of a plain MLP.
    "silu": "exact",
}
_POOL_OF = {"token": "cls", "avg": "gap", "map": "map"}
# All of these have an epsilon of 1e-6 where no partial says otherwise.
_NORMS = ("layernorm", "layernormfp32", "rmsnorm", "rmsnormfp32")
_SIXTEEN_HEADS = (1152, 1280, 1408, 1664)
_STANDARD = (192, 256, 320, 384, 512, 640, 768, 832, 896, 1024, 1536)


def from_name(architecture: str) -> dict[str, Any]:
    """Fields of the spec that an architecture's name implies; {} for no name."""
    name = architecture.partition(".")[0]
    if not name:
        return {}
    fields: dict[str, Any] = {"gelu": "exact", "norm_epsilon": 1e-6}
    if "quickgelu" in name:
        fields["gelu"] = "quick"
    elif _TANH.fullmatch(name):
        fields["gelu"] = "tanh"
    if _EPSILON.fullmatch(name):
        fields["norm_epsilon"] = 1e-5
    if name == "test_vit3":
        fields["pool_prefix"] = True
    for pattern, heads in _HEADS:
        if re.fullmatch(pattern, name):
            fields["num_heads"] = heads
    return fields


def from_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that the arguments in a folder's config.json say.

    Raises:
      ValueError: the activation, the pooling or the norm is none that we have.
    """
    fields: dict[str, Any] = {}
    if (pool := arguments.get("global_pool")) is not None:
        if pool not in _POOL_OF:
            raise ValueError(
                f"global_pool={pool!r} must be one of {', '.join(_POOL_OF)}."
            )
        fields["pool"] = _POOL_OF[pool]
    if "num_heads" in arguments:
        fields["num_heads"] = arguments["num_heads"]
    if "pool_include_prefix" in arguments:
        fields["pool_prefix"] = arguments["pool_include_prefix"]
    if "no_embed_class" in arguments:
        fields["prefix_positions"] = not arguments["no_embed_class"]
    if (activation := arguments.get("act_layer")) is not None:
        if activation not in _GELU_OF:
            raise ValueError(
                f"act_layer={activation!r} must be one of {', '.join(_GELU_OF)}."
            )
        fields["gelu"] = _GELU_OF[activation]
    if (layer := arguments.get("norm_layer")) is not None:
        if layer not in _NORMS:
            raise ValueError(
                f"norm_layer={layer!r} must be one of {', '.join(_NORMS)}."
            )
        fields["norm_epsilon"] = 1e-6
    return fields


def guessed_heads(width: int, arrays: Mapping[str, np.ndarray]) -> int:
    """How many heads a model of that width has in all of timm's Vision Transformers.

    Raises:
      ValueError: no model there is that wide.
    """
    norm = arrays.get("blocks.0.attn.q_norm.weight")
    if norm is not None:
        return width // len(norm)
    if "patch_embed.norm.weight" in arrays:
        return width // 128
    if width in _SIXTEEN_HEADS:
        return 16
    if width in _STANDARD:
        return width // 64
    raise ValueError(
        f"no name says how many heads a model of width {width} has; give "
        "num_heads= (--num_heads), or variant= with the model's name (--variant)."
    )


def architecture_of(spec: VitSpec) -> str:
    """A timm model whose class and epsilon are the spec's; arguments say the rest."""
    if spec.stem == "resnet":
        known = {
            (): "vit_tiny_r_s16_p8_224",
            (2, 2, 2, 2): "vit_small_r26_s32_224",
            (3, 4, 9): "vit_base_r50_s16_224",
            (3, 4, 6, 3): "vit_large_r50_s32_224",
        }
        if spec.stem_width != 64:
            raise ValueError(
                f"timm has no hybrid with stem_width={spec.stem_width}; it must be 64."
            )
        if spec.stem_units not in known:
            raise ValueError(
                f"timm has no hybrid with stem_units={spec.stem_units}; it must be one "
                f"of {', '.join(map(str, known))}."
            )
        return known[spec.stem_units]
    if spec.pool == "distilled":
        return "deit_base_distilled_patch16_224"
    if spec.stem_norm:
        return "aimv2_large_patch14_224"
    if spec.mlp == "swiglu":
        return "vit_giant_patch14_dinov2"
    small = spec.norm_epsilon == 1e-5
    return "vit_base_patch16_clip_224" if small else "vit_base_patch16_224"


def arguments_of(spec: VitSpec, image_size: tuple[int, int]) -> dict[str, Any]:
    """The arguments that make timm's architecture the spec's model."""
    gelu = {"exact": "gelu", "tanh": "gelu_tanh", "quick": "quick_gelu"}[spec.gelu]
    packed = spec.mlp == "swiglu" and not spec.stem_norm
    arguments = {
        "img_size": list(image_size),
        "patch_size": spec.patch_size,
        "embed_dim": spec.width,
        "depth": spec.depth,
        "num_heads": spec.num_heads,
        "mlp_ratio": (spec.mlp_dim + 0.5) * (2 if packed else 1) / spec.width,
        "qkv_bias": spec.qkv_bias,
        "proj_bias": spec.out_bias,
        "qk_norm": spec.qk_norm,
        "scale_attn_norm": spec.inner_norm,
        "scale_mlp_norm": spec.inner_norm,
        "init_values": spec.layer_scale or None,
        "pre_norm": spec.first_norm,
    }
    if spec.mlp == "plain":
        arguments["act_layer"] = gelu
    if spec.norm == "rms" and not spec.stem_norm:
        arguments["norm_layer"] = "rmsnorm"
    if spec.pool == "distilled":
        return arguments
    return arguments | {
        "class_token": spec.has_class_token,
        "reg_tokens": spec.num_registers,
        "no_embed_class": not spec.prefix_positions,
        "pos_embed": "none" if spec.position == "none" else "learn",
        "global_pool": {"cls": "token", "gap": "avg", "map": "map"}[spec.pool],
        "pool_include_prefix": spec.pool_prefix,
        "final_norm": spec.final_norm != "none",
        "fc_norm": spec.final_norm == "pooled",
    }
