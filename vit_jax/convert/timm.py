"""timm's names: Vision Transformers, DeiT and the ResNet hybrids."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.convert.layers import (
    conv,
    dense,
    fused_heads,
    norm,
    out_projection,
    packed,
    same,
)
from vit_jax.convert.layout import Found
from vit_jax.convert.rules import Rule
from vit_jax.convert.timm_names import from_arguments, from_name, guessed_heads
from vit_jax.convert.timm_shapes import BACKBONE, fields_of
from vit_jax.models.spec import VitSpec


def detect(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the names are this layout's."""
    return any(name.startswith("blocks.0.") for name in arrays)


def read(
    arrays: Mapping[str, np.ndarray],
    architecture: str = "",
    arguments: Mapping[str, Any] | None = None,
    fields: Mapping[str, Any] | None = None,
    image_size: Sequence[int] | None = None,
) -> Found:
    """The model of a state dict.

    Args:
      arrays: the state dict.
      architecture: timm's name of the model; "": as most of them are.
      arguments: what the model was built with, from a folder's config.json.
      fields: of the spec, as the caller knows them.
      image_size: (rows, columns), where the position table is no square's.

    Raises:
      ValueError: blocks are of a kind that we have no model for; or no name says how
        many heads there are, and the width doesn't.
    """
    arrays = {_modern(name): array for name, array in arrays.items()}
    _refuse_other_blocks(arrays, architecture)
    built = from_arguments(arguments or {})
    if "dist_token" in arrays:
        # The two heads are the pooling there, whatever the arguments say.
        built.pop("pool", None)
    said = from_name(architecture) | built | (fields or {})
    width = arrays["blocks.0.norm1.weight"].shape[0]
    notes = _guesses(said) if not architecture else ()
    if "num_heads" not in said:
        said["num_heads"] = guessed_heads(width, arrays)

    def rules(spec: VitSpec) -> list[Rule]:
        return table(spec, fused_gate=_is_packed(arrays))

    shapes = fields_of(arrays, width, image_size, said.get("pool"))
    if shapes["mlp"] == "plain" and (arguments or {}).get("act_layer") == "silu":
        raise ValueError(
            "act_layer='silu' of a plain MLP has no model here; it must be one of "
            "gelu, gelu_tanh, quick_gelu."
        )
    return Found(VitSpec(**(shapes | said)), arrays, rules, notes)


def _guesses(said: Mapping[str, Any]) -> tuple[str, ...]:
    """A note on what nothing and nobody says."""
    words = {"gelu": "GELU", "norm_epsilon": "epsilon", "num_heads": "heads"}
    open_ones = [word for key, word in words.items() if key not in said]
    if not open_ones:
        return ()
    *others, last = open_ones
    listed = f"{', '.join(others)} and {last}" if others else last
    return (f"{listed}: as most of timm's",)


def refusals(spec: VitSpec) -> list[str]:
    """Why timm has no such model; [] where it has."""
    reasons = []
    if spec.position not in ("learned_1d", "none"):
        reasons.append(f"position={spec.position!r} must be 'learned_1d' or 'none'")
    if spec.pool in ("cls_gap", "none"):
        reasons.append(f"pool={spec.pool!r} must be cls, gap, map or distilled")
    if spec.window_size:
        reasons.append(f"window_size={spec.window_size} must be 0")
    if spec.mlp_bias != spec.out_bias:
        reasons.append(f"mlp_bias={spec.mlp_bias} must be out_bias={spec.out_bias}")
    if spec.stem == "patch" and spec.stem_bias == spec.first_norm:
        reasons.append(
            f"stem_bias={spec.stem_bias} must be {not spec.first_norm}, as "
            f"first_norm={spec.first_norm}"
        )
    if spec.stem_norm != (spec.stem_norm and spec.mlp == "swiglu"):
        reasons.append("stem_norm must go with mlp='swiglu'")
    if spec.pool == "map" and spec.mlp == "swiglu":
        reasons.append("pool='map' must go with mlp='plain'")
    return reasons


def table(
    spec: VitSpec, *, fused_gate: bool = True, pre_logits: bool = True
) -> list[Rule]:
    """The table of a model.

    Args:
      spec: the model.
      fused_gate: a SwiGLU's gate and hidden layer are one (`SwiGLUPacked`), not two.
      pre_logits: has the tanh layer that timm had before 2022.
    """
    rules = [*_tokens(spec), *_stem(spec)]
    with_bias = spec.norm == "layer"
    if spec.position == "learned_1d":
        rules.append(same("position/table", "pos_embed"))
    if spec.first_norm:
        rules += norm("encoder/first_norm", "norm_pre", with_bias)
    for layer in range(spec.depth):
        rules += _block(spec, layer, fused_gate)
    if spec.final_norm == "tokens":
        rules += norm("encoder/norm", "norm", with_bias)
    if spec.final_norm == "pooled":
        rules += norm("head_norm", "fc_norm", with_bias)
    if spec.pool == "map":
        rules += _attention_pool(spec)
    if spec.representation_size and pre_logits:
        rules += dense("pre_logits", "pre_logits.fc")
    return rules + _head(spec)


def _tokens(spec: VitSpec) -> list[Rule]:
    rules = []
    if spec.has_class_token:
        rules.append(same("prefix/class_token", "cls_token"))
    if spec.num_registers:
        name = "dist_token" if spec.pool == "distilled" else "reg_token"
        rules.append(same("prefix/registers", name))
    return rules


def _head(spec: VitSpec) -> list[Rule]:
    if not spec.num_classes:
        return []
    if spec.pool != "distilled":
        return dense("head", "head")
    return [
        *dense("head/class_token", "head"),
        *dense("head/distillation_token", "head_dist"),
    ]


def _stem(spec: VitSpec) -> list[Rule]:
    bias = spec.stem_bias or spec.stem == "resnet"
    rules = conv("stem/projection", "patch_embed.proj", bias)
    if spec.stem_norm:
        rules += norm("stem/norm", "patch_embed.norm", spec.norm == "layer")
    if spec.stem != "resnet":
        return rules
    stem = f"{BACKBONE}.stem" if spec.stem_units else BACKBONE
    rules += conv("stem/root", f"{stem}.conv", bias=False)
    rules += norm("stem/root_norm", f"{stem}.norm")
    for stage, count in enumerate(spec.stem_units):
        for unit in range(count):
            rules += _unit(stage, unit)
    return rules


def _unit(stage: int, unit: int) -> list[Rule]:
    ours = f"stem/stages/stage_{stage}_unit_{unit}"
    theirs = f"{BACKBONE}.stages.{stage}.blocks.{unit}"
    rules = []
    for number in (1, 2, 3):
        rules += conv(f"{ours}/conv{number}", f"{theirs}.conv{number}", bias=False)
        rules += norm(f"{ours}/norm{number}", f"{theirs}.norm{number}")
    if unit == 0:
        rules += conv(f"{ours}/shortcut", f"{theirs}.downsample.conv", bias=False)
        rules += norm(f"{ours}/shortcut_norm", f"{theirs}.downsample.norm")
    return rules


def _block(spec: VitSpec, layer: int, fused_gate: bool) -> list[Rule]:
    ours, theirs = f"encoder/block_{layer}", f"blocks.{layer}"
    attention, with_bias = f"{ours}/attention", spec.norm == "layer"
    bias = f"{theirs}.attn.qkv.bias" if spec.qkv_bias else None
    rules = norm(f"{ours}/attention_norm", f"{theirs}.norm1", with_bias)
    rules += fused_heads(attention, f"{theirs}.attn.qkv.weight", spec.num_heads, bias)
    rules += out_projection(
        f"{attention}/out", f"{theirs}.attn.proj", spec.num_heads, spec.out_bias
    )
    if spec.qk_norm:
        rules += norm(f"{attention}/query_norm", f"{theirs}.attn.q_norm", with_bias)
        rules += norm(f"{attention}/key_norm", f"{theirs}.attn.k_norm", with_bias)
    if spec.inner_norm:
        rules += norm(f"{attention}/inner_norm", f"{theirs}.attn.norm", with_bias)
        rules += norm(f"{ours}/mlp/inner_norm", f"{theirs}.mlp.norm", with_bias)
    rules += norm(f"{ours}/mlp_norm", f"{theirs}.norm2", with_bias)
    rules += _mlp(spec, f"{ours}/mlp", f"{theirs}.mlp", fused_gate)
    if spec.layer_scale:
        rules.append(same(f"{ours}/attention_scale/gamma", f"{theirs}.ls1.gamma"))
        rules.append(same(f"{ours}/mlp_scale/gamma", f"{theirs}.ls2.gamma"))
    return rules


def _mlp(spec: VitSpec, ours: str, theirs: str, fused_gate: bool) -> list[Rule]:
    bias = spec.mlp_bias
    rules = dense(f"{ours}/out", f"{theirs}.fc2", bias)
    if spec.mlp == "plain":
        return rules + dense(f"{ours}/hidden", f"{theirs}.fc1", bias)
    if fused_gate:
        pair = (f"{ours}/gate", f"{ours}/hidden")
        return rules + packed(pair, f"{theirs}.fc1", bias)
    rules += dense(f"{ours}/gate", f"{theirs}.fc1_g", bias)
    return rules + dense(f"{ours}/hidden", f"{theirs}.fc1_x", bias)


def _attention_pool(spec: VitSpec) -> list[Rule]:
    pool, heads = "attn_pool", spec.num_heads
    return [
        same("pool/probe", f"{pool}.latent"),
        *fused_heads(
            "pool", f"{pool}.q.weight", heads, f"{pool}.q.bias", parts=("query",)
        ),
        *fused_heads(
            "pool", f"{pool}.kv.weight", heads, f"{pool}.kv.bias", ("key", "value")
        ),
        *out_projection("pool/out", f"{pool}.proj", heads),
        *norm("pool/norm", f"{pool}.norm", spec.norm == "layer"),
        *dense("pool/mlp/hidden", f"{pool}.mlp.fc1"),
        *dense("pool/mlp/out", f"{pool}.mlp.fc2"),
    ]


def _modern(name: str) -> str:
    """DeiT III's own files have the names of an older timm."""
    return re.sub(r"^(blocks\.\d+\.)gamma_([12])$", r"\1ls\2.gamma", name)


def _refuse_other_blocks(arrays: Mapping[str, np.ndarray], architecture: str) -> None:
    if "_rpn_" in architecture:
        # The arrays have the usual names and shapes, so the name alone tells.
        raise ValueError(
            f"blocks with norms after the branches have no model here: {architecture}."
        )
    kinds = {
        "blocks.0.attns.0.norm.weight": "parallel branches (ParallelThingsBlock)",
        "blocks.0.in_proj.weight": "attention and MLP side by side (ParallelScaling)",
        "blocks.0.attn.lambda_q1": "differential attention",
    }
    for name, kind in kinds.items():
        if name in arrays:
            raise ValueError(f"blocks with {kind} have no model here: {name}.")


def _is_packed(arrays: Mapping[str, np.ndarray]) -> bool:
    return "blocks.0.mlp.fc1.weight" in arrays
