"""From a name and flat keywords to a model built of parts."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from vit_jax.layers.attention import Attention
from vit_jax.layers.head import DistilledHead, Head, PreLogits
from vit_jax.layers.mlp import MlpBlock, SwiGLU
from vit_jax.layers.patches import ConvStem, PatchEmbed
from vit_jax.layers.pooling import (
    AllTokens,
    AttentionPool,
    ClassAndMeanPool,
    ClassPool,
    DistilledPool,
    MeanPool,
    PrefixTokens,
)
from vit_jax.layers.position import (
    LearnedPosition,
    LearnedPosition2D,
    RelativeBias,
    SinCosPosition,
)
from vit_jax.layers.regularize import LayerScale
from vit_jax.models.checks import check, check_run
from vit_jax.models.encoder import REMAT_POLICIES, Encoder, EncoderBlock, Template
from vit_jax.models.preprocessing import Preprocessing
from vit_jax.models.resnet import ResNet, ResNetStem
from vit_jax.models.spec import ResNetSpec, Spec, VitSpec
from vit_jax.models.variants import resolve
from vit_jax.models.vit import VisionTransformer


def create_model(
    name: str,
    *,
    dtype: jnp.dtype = jnp.float32,
    scan: bool = False,
    remat: str = "none",
    **overrides: Any,
) -> nn.Module:
    """The model called `name`, with any field of its row in the table overridden.

        model = create_model("B/16", num_classes=10, pool="gap")
        params = model.init(key, images)["params"]
        logits = model.apply({"params": params}, images)

    Args:
      name: one that `list_models` gives.
      dtype: of activations; parameters, norms, softmax and head are float32.
      scan: loops over the layers instead of unrolling them; the results, parameters and
        checkpoints stay.
      remat: what the backward pass keeps of each block: "none" recomputes nothing,
        "dots" all but dense layers, "full" everything. The results stay.
      **overrides: fields of the variant's spec (`vit_jax.models.spec`); None: the
        variant's own.

    Raises:
      ValueError: name, keyword or value doesn't exist or can't work.
    """
    spec = resolve(name, overrides)
    check(spec)
    if remat not in REMAT_POLICIES:
        names = ", ".join(map(repr, REMAT_POLICIES))
        raise ValueError(f"remat={remat!r} must be one of {names}.")
    check_run(spec, scan, remat)
    if isinstance(spec, ResNetSpec):
        return _resnet(spec, dtype)
    return _vision_transformer(spec, dtype, scan, remat)


def _resnet(spec: ResNetSpec, dtype: jnp.dtype) -> ResNet:
    return ResNet(
        units=spec.stem_units,
        mid=spec.stem_width,
        head=_head(spec),
        conv_epsilon=spec.conv_epsilon,
        norm_epsilon=spec.group_norm_epsilon,
        dtype=dtype,
        preprocessing=_preprocessing(spec),
    )


def _vision_transformer(
    spec: VitSpec, dtype: jnp.dtype, scan: bool, remat: str
) -> VisionTransformer:
    pre_logits = spec.representation_size
    truncated = spec.token_init == "truncated"
    return VisionTransformer(
        stem=_stem(spec, dtype),
        prefix=PrefixTokens(
            spec.width, spec.has_class_token, spec.num_registers, truncated
        )
        if spec.num_prefix
        else None,
        position=_position(spec),
        encoder=Encoder(
            blocks=_blocks(spec, dtype),
            depth=spec.depth,
            norm=_norm(spec) if spec.final_norm == "tokens" else None,
            first_norm=_norm(spec) if spec.first_norm else None,
            stochastic_depth=spec.stochastic_depth,
            scan=scan,
            remat=remat,
        ),
        pool=_pool(spec, dtype),
        head_norm=_norm(spec) if spec.final_norm == "pooled" else None,
        pre_logits=PreLogits(pre_logits) if pre_logits else None,
        head=_head(spec),
        dropout=spec.dropout,
        patch_dropout=spec.patch_dropout,
        preprocessing=_preprocessing(spec),
    )


def _stem(spec: VitSpec, dtype: jnp.dtype) -> nn.Module:
    if spec.stem == "conv":
        return ConvStem(spec.patch_size, spec.width, dtype)
    if spec.stem == "resnet":
        return ResNetStem(
            spec.stem_units,
            spec.patch_size,
            spec.width,
            spec.stem_width,
            spec.stem_projection,
            spec.conv_epsilon,
            spec.group_norm_epsilon,
            dtype,
        )
    norm = _norm(spec) if spec.stem_norm else None
    return PatchEmbed(spec.patch_size, spec.width, spec.stem_bias, norm, dtype)


def _position(spec: VitSpec) -> nn.Module | None:
    """What is added to the tokens; relative and rope act inside attention."""
    slots = spec.num_prefix if spec.prefix_positions else 0
    truncated = spec.token_init == "truncated"
    match spec.position:
        case "learned_1d":
            return LearnedPosition(spec.width, slots, truncated)
        case "learned_2d":
            return LearnedPosition2D(spec.width, slots, truncated)
        case "sincos_2d":
            return SinCosPosition(spec.width, "moco")
        case "sincos_2d_mae":
            return SinCosPosition(spec.width, "mae")
    return None


def _blocks(spec: VitSpec, dtype: jnp.dtype) -> tuple[Template, ...]:
    """One turn of layers: all equal, or windowed ones and then a global one."""
    if not spec.window_size:
        return (Template(_block(spec, dtype, 0)),)
    windowed = Template(_block(spec, dtype, spec.window_size))
    if not spec.global_every:
        return (windowed,)
    return (windowed,) * (spec.global_every - 1) + (Template(_block(spec, dtype, 0)),)


def _block(spec: VitSpec, dtype: jnp.dtype, window_size: int) -> EncoderBlock:
    relative = spec.position == "relative"
    scale = spec.layer_scale
    return EncoderBlock(
        attention_norm=_norm(spec),
        attention=Attention(
            num_heads=spec.num_heads,
            dropout=spec.dropout,
            attention_dropout=spec.attention_dropout,
            qkv_bias=spec.qkv_bias,
            out_bias=spec.out_bias,
            query_norm=_norm(spec) if spec.qk_norm else None,
            key_norm=_norm(spec) if spec.qk_norm else None,
            inner_norm=_norm(spec) if spec.inner_norm else None,
            relative=RelativeBias(spec.num_heads, window_size) if relative else None,
            rotary=spec.position == "rope",
            window_size=window_size,
            dtype=dtype,
        ),
        mlp_norm=_norm(spec),
        mlp=_mlp(spec, dtype, spec.dropout),
        attention_scale=LayerScale(scale) if scale else None,
        mlp_scale=LayerScale(scale) if scale else None,
        dtype=dtype,
    )


def _mlp(spec: VitSpec, dtype: jnp.dtype, dropout: float) -> nn.Module:
    norm = _norm(spec) if spec.inner_norm else None
    if spec.mlp == "swiglu":
        return SwiGLU(spec.mlp_dim, dropout, spec.mlp_bias, norm, dtype)
    return MlpBlock(spec.mlp_dim, spec.gelu, dropout, spec.mlp_bias, norm, dtype)


def _norm(spec: VitSpec) -> nn.Module:
    if spec.norm == "rms":
        return nn.RMSNorm(spec.norm_epsilon, dtype=jnp.float32)
    # The fast variance, E[x^2] - E[x]^2, loses all digits where the mean is large.
    return nn.LayerNorm(spec.norm_epsilon, dtype=jnp.float32, use_fast_variance=False)


def _pool(spec: VitSpec, dtype: jnp.dtype) -> nn.Module:
    match spec.pool:
        case "map":
            mlp = MlpBlock(spec.mlp_dim, spec.gelu, dtype=dtype)
            prefix = spec.pool_prefix
            return AttentionPool(spec.num_heads, _norm(spec), mlp, prefix, dtype)
        case "gap":
            return MeanPool(spec.pool_prefix)
        case "cls_gap":
            return ClassAndMeanPool()
        case "distilled":
            return DistilledPool(mean=not spec.num_classes)
        case "none":
            return AllTokens()
    return ClassPool()


def _head(spec: Spec) -> nn.Module | None:
    if not spec.num_classes:
        return None
    distilled = isinstance(spec, VitSpec) and spec.pool == "distilled"
    head = DistilledHead if distilled else Head
    return head(spec.num_classes, spec.head_init_std, spec.head_bias_init)


def _preprocessing(spec: Spec) -> Preprocessing:
    return Preprocessing(image_size=(spec.image_size, spec.image_size))
