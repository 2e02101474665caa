"""Hugging Face's names: ViT, DeiT and DINOv2, as folders with a config.

Names are those of transformers 4.x, which 5.x writes and reads too; the names that 5.x
has in memory are read as well.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.convert.huggingface_config import FAMILIES, GELU_OF
from vit_jax.convert.layers import (
    conv,
    dense,
    norm,
    out_projection,
    packed,
    same,
    split_heads,
)
from vit_jax.convert.layout import Found
from vit_jax.convert.rules import Arrays, Rule
from vit_jax.models.spec import VitSpec

# What 5.x calls layers in memory -> what lies in files.
_RENAMED = (
    (r"^((?:vit|deit)\.)?layers\.", r"\1encoder.layer."),
    (r"\.attention\.q_proj\.", ".attention.attention.query."),
    (r"\.attention\.k_proj\.", ".attention.attention.key."),
    (r"\.attention\.v_proj\.", ".attention.attention.value."),
    (r"\.attention\.o_proj\.", ".attention.output.dense."),
)
_RENAMED_MLP = (
    (r"(layer\.\d+)\.mlp\.fc1\.", r"\1.intermediate.dense."),
    (r"(layer\.\d+)\.mlp\.fc2\.", r"\1.output.dense."),
)
_MASK = "a mask token, which only pretraining reads, is left out or written as zeros"
_SLOT = "the class token's position is added to it, or written as zeros"


def detect(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the names are this layout's."""
    return any("embeddings.patch_embeddings.projection.weight" in n for n in arrays)


def read(arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Found:
    """The model of a folder's content.

    Raises:
      ValueError: the config describes no model that we have, or lacks an entry.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ValueError(
            f"config.json has model_type={family!r}; it must be one of "
            f"{', '.join(FAMILIES)}."
        )
    prefix = f"{family}."
    prefix = prefix if any(name.startswith(prefix) for name in arrays) else ""
    arrays = _as_filed(arrays, family)
    mask = f"{prefix}embeddings.mask_token"

    def rules(spec: VitSpec) -> list[Rule]:
        return table(spec, family, prefix, with_mask=mask in arrays)

    return Found(_spec(arrays, config, family, prefix), arrays, rules)


def table(
    spec: VitSpec, family: str, prefix: str, *, with_mask: bool = True
) -> list[Rule]:
    """The table of a model.

    Args:
      spec: the model.
      family: one of `FAMILIES`.
      prefix: of all names but the head's; "" for models without a head.
      with_mask: whether DINOv2 has its mask token, which pretraining alone reads.
    """
    theirs = f"{prefix}embeddings"
    rules = _embeddings(
        spec,
        theirs,
        "distillation_token" if family == "deit" else "register_tokens",
        f"{theirs}.mask_token" if with_mask and "dinov2" in family else "",
    )
    for layer in range(spec.depth):
        ours, theirs = f"encoder/block_{layer}", f"{prefix}encoder.layer.{layer}"
        attention = f"{theirs}.attention"
        names = [f"{attention}.attention.{part}" for part in ("query", "key", "value")]
        rules += split_heads(f"{ours}/attention", names, spec.num_heads, spec.qkv_bias)
        rules += out_projection(
            f"{ours}/attention/out", f"{attention}.output.dense", spec.num_heads
        )
        rules += (_dinov2_block if "dinov2" in family else _block)(spec, ours, theirs)
    rules += norm("encoder/norm", f"{prefix}layernorm")
    if spec.representation_size:
        rules += dense("pre_logits", f"{prefix}pooler.dense")
    if not spec.num_classes:
        return rules
    if spec.pool != "distilled":
        return rules + dense("head", "classifier")
    return [
        *rules,
        *dense("head/class_token", "cls_classifier"),
        *dense("head/distillation_token", "distillation_classifier"),
    ]


def _as_filed(arrays: Mapping[str, np.ndarray], family: str) -> dict[str, np.ndarray]:
    """The arrays by the names that files have, whichever version named them."""
    renamed = _RENAMED if "dinov2" in family else (*_RENAMED, *_RENAMED_MLP)
    found: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        for pattern, new in renamed:
            name = re.sub(pattern, new, name)
        found[name.replace(".mlp.down_proj.", ".mlp.weights_out.")] = array
    for name in [name for name in found if ".mlp.gate_proj." in name]:
        other = name.replace("gate_proj", "up_proj")
        if other in found:
            pair = [found.pop(name), found.pop(other)]
            found[name.replace("gate_proj", "weights_in")] = np.concatenate(pair)
    return found


def _spec(
    arrays: Mapping[str, np.ndarray],
    config: Mapping[str, Any],
    family: str,
    prefix: str,
) -> VitSpec:
    try:
        width, act = config["hidden_size"], config["hidden_act"]
        fields = {
            "width": width,
            "depth": config["num_hidden_layers"],
            "num_heads": config["num_attention_heads"],
            "patch_size": config["patch_size"],
            "norm_epsilon": config["layer_norm_eps"],
        }
    except KeyError as error:
        raise ValueError(f"config.json lacks {error}; get it again.") from error
    if act not in GELU_OF:
        raise ValueError(
            f"config.json has hidden_act={act!r}; it must be one of "
            f"{', '.join(GELU_OF)}."
        )
    heads = [arrays.get(f"{n}.bias") for n in ("classifier", "cls_classifier")]
    sizes = [len(head) for head in heads if head is not None]
    block = f"{prefix}encoder.layer.0"
    pooler = arrays.get(f"{prefix}pooler.dense.bias")
    if pooler is not None and config.get("pooler_act", "tanh") != "tanh":
        raise ValueError(
            f"config.json has pooler_act={config['pooler_act']!r}; it must be tanh."
        )
    registers = arrays.get(f"{prefix}embeddings.register_tokens")
    fields |= {
        "gelu": GELU_OF[act],
        "qkv_bias": f"{block}.attention.attention.query.bias" in arrays,
        "num_classes": sizes[0] if sizes else 0,
        "representation_size": 0 if pooler is None else len(pooler),
        "layer_scale": float(config.get("layerscale_value", 1.0))
        if f"{block}.layer_scale1.lambda1" in arrays
        else 0.0,
        "num_registers": 0 if registers is None else registers.shape[1],
        "pool": "cls",
        **_mlp_fields(arrays, block),
    }
    if family == "deit":
        teacher = "cls_classifier.weight" in arrays
        fields |= {"num_registers": 1, "pool": "distilled" if teacher else "cls"}
    if "dinov2" in family and sizes:
        fields["pool"] = "cls_gap"
    # Registers have no positions there, so the class token's is added to it.
    fields["prefix_positions"] = registers is None
    return VitSpec(**fields)


def _mlp_fields(arrays: Mapping[str, np.ndarray], block: str) -> dict[str, Any]:
    names = ("intermediate.dense.bias", "mlp.fc1.bias", "mlp.weights_in.bias")
    for name in names:
        if (bias := arrays.get(f"{block}.{name}")) is not None:
            gated = "weights_in" in name
            size = len(bias) // 2 if gated else len(bias)
            return {"mlp_dim": size, "mlp": "swiglu" if gated else "plain"}
    raise ValueError(f"the weights have no {block}.{names[0]}; get them again.")


def _embeddings(spec: VitSpec, theirs: str, token_of: str, mask: str) -> list[Rule]:
    rules = conv("stem/projection", f"{theirs}.patch_embeddings.projection")
    if mask:
        bias = rules.pop()
        names = (*bias.theirs, mask)
        rules.append(Rule(bias.ours, names, _with_mask, _without_mask, _MASK))
    position, token = f"{theirs}.position_embeddings", f"{theirs}.cls_token"
    if spec.prefix_positions:
        rules.append(same("prefix/class_token", token))
        rules.append(same("position/table", position))
    else:
        names = ("prefix/class_token", "position/table")
        rules.append(Rule(names, (token, position), _with_slot, _without_slot, _SLOT))
    if spec.num_registers:
        rules.append(same("prefix/registers", f"{theirs}.{token_of}"))
    return rules


def _with_mask(arrays: Arrays) -> Arrays:
    """Zeros for what is masked, as wide and of the type of the patches' bias."""
    return [arrays[0], np.zeros((1, len(arrays[0])), arrays[0].dtype)]


def _without_mask(arrays: Arrays) -> Arrays:
    return [arrays[0]]


def _with_slot(arrays: Arrays) -> Arrays:
    token, position = arrays
    slot = np.zeros((1, 1, position.shape[-1]), position.dtype)
    return [token, np.concatenate([slot, position], axis=1)]


def _without_slot(arrays: Arrays) -> Arrays:
    token, position = arrays
    return [token + position[:, :1], position[:, 1:]]


def _block(spec: VitSpec, ours: str, theirs: str) -> list[Rule]:
    return [
        *norm(f"{ours}/attention_norm", f"{theirs}.layernorm_before"),
        *norm(f"{ours}/mlp_norm", f"{theirs}.layernorm_after"),
        *dense(f"{ours}/mlp/hidden", f"{theirs}.intermediate.dense"),
        *dense(f"{ours}/mlp/out", f"{theirs}.output.dense"),
    ]


def _dinov2_block(spec: VitSpec, ours: str, theirs: str) -> list[Rule]:
    rules = [
        *norm(f"{ours}/attention_norm", f"{theirs}.norm1"),
        *norm(f"{ours}/mlp_norm", f"{theirs}.norm2"),
        same(f"{ours}/attention_scale/gamma", f"{theirs}.layer_scale1.lambda1"),
        same(f"{ours}/mlp_scale/gamma", f"{theirs}.layer_scale2.lambda1"),
    ]
    if spec.mlp == "plain":
        rules += dense(f"{ours}/mlp/hidden", f"{theirs}.mlp.fc1")
        return rules + dense(f"{ours}/mlp/out", f"{theirs}.mlp.fc2")
    pair = (f"{ours}/mlp/gate", f"{ours}/mlp/hidden")
    rules += packed(pair, f"{theirs}.mlp.weights_in")
    return rules + dense(f"{ours}/mlp/out", f"{theirs}.mlp.weights_out")
