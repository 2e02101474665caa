"""From a name and flat keywords to a model built of parts."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from vit_jax.layers.attention import Attention
from vit_jax.layers.head import Head, PreLogits
from vit_jax.layers.mlp import MlpBlock
from vit_jax.layers.patches import PatchEmbed
from vit_jax.layers.pooling import ClassPool, MeanPool, PrefixTokens
from vit_jax.layers.position import LearnedPosition
from vit_jax.models.encoder import Encoder, EncoderBlock, Template
from vit_jax.models.variants import Spec, resolve
from vit_jax.models.vit import VisionTransformer

_CHOICES = {
    "position": ("learned_1d", "none"),
    "token_init": ("paper", "truncated"),
    "gelu": ("tanh", "exact"),
    "pool": ("cls", "gap"),
}
_RATES = ("dropout", "attention_dropout", "stochastic_depth")
_AT_LEAST_ONE = ("width", "depth", "num_heads", "mlp_dim", "patch_size")
_AT_LEAST_ZERO = ("representation_size", "num_classes", "head_init_std")


def create_model(
    name: str, *, dtype: jnp.dtype = jnp.float32, **overrides: Any
) -> VisionTransformer:
    """The model called `name`, with any field of its row in the table overridden.

        model = create_model("B/16", num_classes=10, pool="gap")
        params = model.init(key, images)["params"]
        logits = model.apply({"params": params}, images)

    Args:
      name: one that `list_models` gives.
      dtype: of activations; parameters, norms, softmax and head are float32.
      **overrides: fields of `vit_jax.models.variants.Spec`; None: the variant's own.

    Raises:
      ValueError: name, keyword or value doesn't exist or can't work.
    """
    spec = resolve(name, overrides)
    check(spec)
    return build(spec, dtype)


def check(spec: Spec) -> None:
    """Nothing, where the model can be built.

    Raises:
      ValueError: lists every field that can't work, with what must hold.
    """
    fields = dataclasses.asdict(spec)
    faults = [
        f"{name}={fields[name]!r} must be one of {', '.join(map(repr, choices))}."
        for name, choices in _CHOICES.items()
        if fields[name] not in choices
    ]
    for name in _AT_LEAST_ONE:
        if fields[name] < 1:
            faults.append(f"{name}={fields[name]} must be at least 1.")
    for name in _AT_LEAST_ZERO:
        if fields[name] < 0:
            faults.append(f"{name}={fields[name]} must be at least 0.")
    for name in _RATES:
        if not 0 <= fields[name] < 1:
            faults.append(f"{name}={fields[name]} must be from 0 to less than 1.")
    if spec.num_heads >= 1 and spec.width % spec.num_heads:
        faults.append(
            f"width={spec.width} must be a multiple of num_heads={spec.num_heads}."
        )
    if faults:
        raise ValueError("\n".join(faults))


def build(spec: Spec, dtype: jnp.dtype) -> VisionTransformer:
    """The model that a checked spec describes."""
    truncated = spec.token_init == "truncated"
    num_prefix = int(spec.pool == "cls")
    return VisionTransformer(
        stem=PatchEmbed(spec.patch_size, spec.width, dtype),
        prefix=PrefixTokens(spec.width, truncated) if num_prefix else None,
        position=LearnedPosition(spec.width, num_prefix, truncated)
        if spec.position == "learned_1d"
        else None,
        encoder=_encoder(spec, dtype),
        pool=ClassPool() if spec.pool == "cls" else MeanPool(),
        pre_logits=PreLogits(spec.representation_size)
        if spec.representation_size
        else None,
        head=Head(spec.num_classes, spec.head_init_std, spec.head_bias_init)
        if spec.num_classes
        else None,
        dropout=spec.dropout,
    )


def _encoder(spec: Spec, dtype: jnp.dtype) -> Encoder:
    def norm() -> nn.Module:
        return nn.LayerNorm(spec.norm_epsilon, dtype=jnp.float32)

    block = EncoderBlock(
        attention_norm=norm(),
        attention=Attention(
            spec.num_heads, spec.dropout, spec.attention_dropout, dtype
        ),
        mlp_norm=norm(),
        mlp=MlpBlock(spec.mlp_dim, spec.gelu, spec.dropout, dtype),
        dtype=dtype,
    )
    return Encoder(Template(block), spec.depth, norm(), spec.stochastic_depth)
