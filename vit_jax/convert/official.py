"""The .npz layout of google-research/vision_transformer and of big_vision."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.convert.layers import same, shaped
from vit_jax.convert.layout import Found
from vit_jax.convert.rules import Rule
from vit_jax.models.spec import VitSpec

# Where the weights lie in what training code saved, the likeliest first.
_PREFIXES = ("", "params/", "opt/target/", "params/img/", "opt/target/img/", "img/")
_ANCHORS = ("embedding/kernel", "conv_root/kernel")
_POSITION = "Transformer/posembed_input/pos_embedding"
_MAP = "MAPHead_0"
# Sub-modules of a block: attention, second norm, MLP. Before Flax's linen all three
# counted together.
_OLD = ("MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3")
_NEW = ("MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0")


def detect(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the names are this layout's."""
    return _prefix(arrays) is not None


def read(
    arrays: Mapping[str, np.ndarray],
) -> Found:
    """The model of a file's arrays.

    The spec comes from names and shapes alone: kernels lie there with their heads.

    Source: names as in the published files; big_vision's blocks may be stacked along
    the layers, and bfloat16 lie as two-byte voids (its utils.py).
    """
    prefix = _prefix(arrays)
    found = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    left = len(arrays) - len(found)
    notes = (f"{left} arrays outside {prefix} left out",) if left else ()
    found = _squeezed(_unstacked(found))
    numbering = _OLD if any(_OLD[0] in name for name in found) else _NEW
    position = _POSITION if _POSITION in found else "pos_embedding"

    def rules(spec: VitSpec) -> list[Rule]:
        return _rules(spec, numbering, position)

    return Found(_spec(found, position), found, rules, notes)


def table(spec: VitSpec) -> tuple[str, list[Rule]]:
    """(prefix, table) to write a model with, in the public files' numbering.

    Models that the original code knows get its names; others big_vision's, whose
    attention pooling, and whose tables without a class slot, the original lacks.
    """
    slots = spec.num_prefix if spec.prefix_positions else 0
    if spec.pool == "map" or slots != spec.num_prefix:
        return "params/", _rules(spec, _NEW, "pos_embedding")
    return "", _rules(spec, _OLD, _POSITION)


def refusals(spec: VitSpec) -> list[str]:
    """Why the original code and big_vision have no such model; [] where they have."""
    wanted = {
        "position": ("learned_1d", "sincos_2d"),
        "pool": ("cls", "gap", "map"),
        "stem": ("patch", "resnet"),
        "final_norm": ("tokens",),
        "window_size": (0,),
    }
    reasons = [
        f"{name}={getattr(spec, name)!r} must be {' or '.join(map(repr, values))}"
        for name, values in wanted.items()
        if getattr(spec, name) not in values
    ]
    for name in ("stem_bias", "qkv_bias", "out_bias", "mlp_bias", "stem_projection"):
        if not getattr(spec, name):
            reasons.append(f"{name}=False must be True")
    return reasons


def _prefix(arrays: Mapping[str, np.ndarray]) -> str | None:
    for prefix in _PREFIXES:
        if any(prefix + anchor in arrays for anchor in _ANCHORS):
            return prefix
    return None


def _unstacked(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Blocks apart where they were scanned over: their layers lie along axis 0."""
    found = {}
    for name, array in arrays.items():
        head, scanned, rest = name.partition("Transformer/encoderblock/")
        if not scanned or head:
            found[name] = array
            continue
        for layer, part in enumerate(array):
            found[f"Transformer/encoderblock_{layer}/{rest}"] = part
    return found


def _squeezed(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Group norms as vectors; before Flax 0.3.6 they were stored as (1, 1, 1, C)."""
    pattern = re.compile(r"(.*/)?gn(\d|_root|_proj)/(scale|bias)")
    return {
        name: array.reshape(-1)
        if pattern.fullmatch(name) and array.shape[:-1] == (1, 1, 1)
        else array
        for name, array in arrays.items()
    }


def _count(arrays: Mapping[str, np.ndarray], pattern: str) -> int:
    """One more than the highest number in the names, by number and not by text."""
    numbers = [int(m[1]) for name in arrays if (m := re.match(pattern, name))]
    return max(numbers, default=-1) + 1


def _spec(arrays: Mapping[str, np.ndarray], position: str) -> VitSpec:
    query = _one(arrays, r"Transformer/encoderblock_\d+/Multi.*/query/kernel")
    hidden = _one(arrays, r"Transformer/encoderblock_\d+/Mlp.*/Dense_0/kernel")
    patches = _one(arrays, r"embedding/kernel")
    width, heads, _ = query.shape
    units = tuple(
        _count(arrays, rf"block{stage + 1}/unit(\d+)/") - 1
        for stage in range(_count(arrays, r"block(\d+)/unit") - 1)
    )
    head, extra = arrays.get("head/bias"), arrays.get("pre_logits/bias")
    class_token = "cls" in arrays
    pool = "map" if f"{_MAP}/probe" in arrays else "cls" if class_token else "gap"
    return VitSpec(
        width=width,
        depth=_count(arrays, r"Transformer/encoderblock_(\d+)/"),
        num_heads=heads,
        mlp_dim=hidden.shape[-1],
        patch_size=patches.shape[0],
        stem_units=units,
        **_root(arrays),
        position="learned_1d" if position in arrays else "sincos_2d",
        class_token=True if class_token and pool == "map" else None,
        prefix_positions=position == _POSITION or not class_token,
        pool=pool,
        representation_size=0 if extra is None else len(extra),
        num_classes=0 if head is None else len(head),
    )


def _root(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    if "conv_root/kernel" not in arrays:
        return {"stem": "patch"}
    return {"stem": "resnet", "stem_width": arrays["conv_root/kernel"].shape[-1]}


def _one(arrays: Mapping[str, np.ndarray], pattern: str) -> np.ndarray:
    for name, array in arrays.items():
        if re.fullmatch(pattern, name):
            return array
    raise ValueError(
        f"the file has no array called {pattern}; it is no complete Vision Transformer."
    )


def _rules(spec: VitSpec, numbering: tuple[str, ...], position: str) -> list[Rule]:
    attention, norm, mlp = numbering
    rules = [*_stem(spec)]
    if spec.has_class_token:
        rules.append(same("prefix/class_token", "cls"))
    if spec.position == "learned_1d":
        rules.append(same("position/table", position))
    for layer in range(spec.depth):
        ours, theirs = f"encoder/block_{layer}", f"Transformer/encoderblock_{layer}"
        rules += _layer(f"{ours}/attention_norm", f"{theirs}/LayerNorm_0", "scale")
        for part in ("query", "key", "value", "out"):
            rules += _layer(f"{ours}/attention/{part}", f"{theirs}/{attention}/{part}")
        rules += _layer(f"{ours}/mlp_norm", f"{theirs}/{norm}", "scale")
        rules += _mlp(f"{ours}/mlp", f"{theirs}/{mlp}")
    if spec.final_norm == "tokens":
        rules += _layer("encoder/norm", "Transformer/encoder_norm", "scale")
    if spec.pool == "map":
        rules += _map_head()
    if spec.representation_size:
        rules += _layer("pre_logits", "pre_logits")
    return [*rules, *_layer("head", "head")] if spec.num_classes else rules


def _stem(spec: VitSpec) -> list[Rule]:
    rules = []
    if spec.stem == "resnet":
        rules.append(same("stem/root/kernel", "conv_root/kernel"))
        rules += _layer("stem/root_norm", "gn_root", "scale")
        for stage, count in enumerate(spec.stem_units):
            for unit in range(count):
                rules += _unit(stage, unit)
    return [*rules, *_layer("stem/projection", "embedding")]


def _unit(stage: int, unit: int) -> list[Rule]:
    """A bottleneck; the first of each stage has a projection on its shortcut."""
    ours = f"stem/stages/stage_{stage}_unit_{unit}"
    theirs = f"block{stage + 1}/unit{unit + 1}"
    names = [(f"conv{i}", f"norm{i}", f"conv{i}", f"gn{i}") for i in (1, 2, 3)]
    if unit == 0:
        names.append(("shortcut", "shortcut_norm", "conv_proj", "gn_proj"))
    rules = []
    for conv, norm, their_conv, their_norm in names:
        rules.append(same(f"{ours}/{conv}/kernel", f"{theirs}/{their_conv}/kernel"))
        rules += _layer(f"{ours}/{norm}", f"{theirs}/{their_norm}", "scale")
    return rules


def _layer(ours: str, theirs: str, leaf: str = "kernel") -> list[Rule]:
    return [same(f"{ours}/{part}", f"{theirs}/{part}") for part in (leaf, "bias")]


def _mlp(ours: str, theirs: str) -> list[Rule]:
    return [
        *_layer(f"{ours}/hidden", f"{theirs}/Dense_0"),
        *_layer(f"{ours}/out", f"{theirs}/Dense_1"),
    ]


def _map_head() -> list[Rule]:
    attention = f"{_MAP}/MultiHeadDotProductAttention_0"
    rules = [shaped("pool/probe", f"{_MAP}/probe", (1, 1, -1), (1, 1, -1))]
    for part in ("query", "key", "value", "out"):
        rules += _layer(f"pool/{part}", f"{attention}/{part}")
    rules += _layer("pool/norm", f"{_MAP}/LayerNorm_0", "scale")
    return [*rules, *_mlp("pool/mlp", f"{_MAP}/MlpBlock_0")]
