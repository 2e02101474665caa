"""Hugging Face's config of a model, or why their library has no such model."""

from collections.abc import Sequence
from typing import Any

from vit_jax.models.spec import VitSpec

FAMILIES = ("vit", "deit", "dinov2", "dinov2_with_registers")
GELU_OF = {
    "gelu": "exact",
    "gelu_pytorch_tanh": "tanh",
    "gelu_new": "tanh",
    "quick_gelu": "quick",
}


def family_of(spec: VitSpec) -> tuple[str, str]:
    """(model type, class) of transformers' model for a spec.

    Raises:
      ValueError: it has none; lists all that stands in the way.
    """
    family = _family(spec)
    faults = _faults(spec, family)
    if faults:
        raise ValueError(
            f"Hugging Face's {family} can't hold this model:\n  " + "\n  ".join(faults)
        )
    start = {
        "vit": "ViT",
        "deit": "DeiT",
        "dinov2": "Dinov2",
        "dinov2_with_registers": "Dinov2WithRegisters",
    }[family]
    if not spec.num_classes:
        return family, f"{start}Model"
    teacher = "WithTeacher" if spec.pool == "distilled" else ""
    return family, f"{start}ForImageClassification{teacher}"


def config_of(
    spec: VitSpec, image_shape: Sequence[int], class_names: Sequence[str]
) -> dict[str, Any]:
    """The config.json of a model.

    Args:
      spec: the model.
      image_shape: (rows, columns, channels).
      class_names: in the order of the logits; () for numbers.

    Raises:
      ValueError: the family has no such model.
    """
    family, architecture = family_of(spec)
    rows, columns, channels = image_shape
    if "dinov2" in family and rows != columns:
        raise ValueError(
            f"Hugging Face's {family} takes squares alone; the images are {rows} x "
            f"{columns}."
        )
    acts = {v: k for k, v in reversed(GELU_OF.items())}
    config = {
        "architectures": [architecture],
        "model_type": family,
        "hidden_size": spec.width,
        "num_hidden_layers": spec.depth,
        "num_attention_heads": spec.num_heads,
        "hidden_act": acts[spec.gelu],
        "layer_norm_eps": spec.norm_epsilon,
        "image_size": rows if rows == columns else [rows, columns],
        "patch_size": spec.patch_size,
        "num_channels": channels,
        "qkv_bias": spec.qkv_bias,
        "hidden_dropout_prob": spec.dropout,
        "attention_probs_dropout_prob": spec.attention_dropout,
    }
    if spec.representation_size:
        config["pooler_output_size"] = spec.representation_size
        config["pooler_act"] = "tanh"
    if spec.num_classes:
        names = class_names or [f"LABEL_{i}" for i in range(spec.num_classes)]
        config["id2label"] = {str(i): name for i, name in enumerate(names)}
        config["label2id"] = {}
        for i, name in enumerate(names):
            # Of equal names the first has the number; ImageNet has two cranes.
            config["label2id"].setdefault(name, i)
    if "dinov2" not in family:
        return config | {"intermediate_size": spec.mlp_dim}
    swiglu = spec.mlp == "swiglu"
    ratio = _swiglu_ratio(spec) if swiglu else spec.mlp_dim // spec.width
    config |= {"mlp_ratio": ratio, "use_swiglu_ffn": swiglu}
    config["layerscale_value"] = spec.layer_scale
    if family == "dinov2_with_registers":
        config["num_register_tokens"] = spec.num_registers
    return config


def _family(spec: VitSpec) -> str:
    if spec.layer_scale or spec.mlp == "swiglu" or spec.pool == "cls_gap":
        return "dinov2_with_registers" if spec.num_registers else "dinov2"
    if spec.num_registers and not spec.prefix_positions:
        return "dinov2_with_registers"
    return "deit" if spec.num_registers else "vit"


def _faults(spec: VitSpec, family: str) -> list[str]:
    """All in which the spec is not the family's model."""
    wanted = {
        "stem": "patch",
        "position": "learned_1d",
        "norm": "layer",
        "final_norm": "tokens",
        "has_class_token": True,
        "window_size": 0,
    }
    wanted |= dict.fromkeys(("stem_bias", "out_bias", "mlp_bias"), True)
    wanted |= dict.fromkeys(("stem_norm", "first_norm", "qk_norm", "inner_norm"), False)
    faults = [
        f"{name}={getattr(spec, name)!r} must be {value!r}"
        for name, value in wanted.items()
        if getattr(spec, name) != value
    ]
    pools = {"vit": ("cls",), "deit": ("cls", "distilled")}.get(family)
    pools = pools or (("cls_gap",) if spec.num_classes else ("cls",))
    if spec.pool not in pools:
        faults.append(f"pool={spec.pool!r} must be {' or '.join(pools)}")
    if family == "deit" and spec.num_registers != 1:
        faults.append(f"num_registers={spec.num_registers} must be 1")
    if spec.representation_size and (spec.num_classes or "dinov2" in family):
        faults.append(
            f"representation_size={spec.representation_size} must be 0 beside a head "
            "and in DINOv2"
        )
    if "dinov2" in family:
        faults += _dinov2_faults(spec)
    return faults


def _dinov2_faults(spec: VitSpec) -> list[str]:
    faults = []
    if not spec.layer_scale:
        faults.append("layer_scale=0.0 must be more than 0")
    if spec.mlp == "plain" and spec.mlp_dim % spec.width:
        faults.append(f"mlp_dim={spec.mlp_dim} must be a multiple of width")
    if spec.mlp == "swiglu" and not _swiglu_ratio(spec):
        faults.append(f"mlp_dim={spec.mlp_dim} must be what a whole mlp_ratio gives")
    if not spec.prefix_positions and not spec.num_registers:
        faults.append("prefix_positions=False must go with registers")
    if spec.prefix_positions and spec.num_registers:
        faults.append("prefix_positions=True must go without registers")
    return faults


def _swiglu_ratio(spec: VitSpec) -> int:
    """The whole ratio from which DINOv2 makes this MLP's width; 0: none does."""
    for ratio in range(1, 17):
        if (int(spec.width * ratio * 2 / 3) + 7) // 8 * 8 == spec.mlp_dim:
            return ratio
    return 0
