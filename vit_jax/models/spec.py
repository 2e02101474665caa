"""A model in flat words: what its parts are."""

import dataclasses

# Poolings that read the class token.
CLASS_TOKEN_POOLS = ("cls", "cls_gap", "distilled")


@dataclasses.dataclass(frozen=True)
class VitSpec:
    """A Vision Transformer in flat words; the defaults are the paper's.

    `choices` in a field's metadata lists what a word may be.
    """

    # Size of the stack.
    width: int
    depth: int
    num_heads: int
    mlp_dim: int
    patch_size: int
    # From image to tokens.
    stem: str = dataclasses.field(
        default="patch", metadata={"choices": ("patch", "conv", "resnet")}
    )
    stem_units: tuple[int, ...] = ()  # bottlenecks of each ResNet stage
    stem_width: int = 64  # channels of the ResNet's root; each stage doubles them
    stem_bias: bool = True
    stem_norm: bool = False  # a norm after the patch projection (AIMv2)
    stem_projection: bool = True  # False: left out where the channels fit the width
    conv_epsilon: float = 1e-5
    group_norm_epsilon: float = 1e-6
    position: str = dataclasses.field(
        default="learned_1d",
        metadata={
            "choices": (
                "none",
                "learned_1d",
                "learned_2d",
                "sincos_2d",
                "sincos_2d_mae",
                "relative",
                "rope",
            )
        },
    )
    class_token: bool | None = None  # None: where the pool needs one
    num_registers: int = 0
    prefix_positions: bool = True  # learned positions have rows for prefix tokens
    token_init: str = dataclasses.field(
        default="paper", metadata={"choices": ("paper", "truncated")}
    )
    # Blocks.
    gelu: str = dataclasses.field(
        default="tanh", metadata={"choices": ("tanh", "exact", "quick")}
    )
    mlp: str = dataclasses.field(
        default="plain", metadata={"choices": ("plain", "swiglu")}
    )
    norm: str = dataclasses.field(
        default="layer", metadata={"choices": ("layer", "rms")}
    )
    norm_epsilon: float = 1e-6
    first_norm: bool = False  # a norm before the blocks (CLIP)
    final_norm: str = dataclasses.field(
        default="tokens", metadata={"choices": ("tokens", "pooled", "none")}
    )
    qkv_bias: bool = True
    out_bias: bool = True
    mlp_bias: bool = True
    qk_norm: bool = False
    inner_norm: bool = False  # before the last layer of attention and MLP (BEiT-3)
    layer_scale: float = 0.0  # first value; 0: none
    window_size: int = 0  # side of attention windows in patches; 0: none
    global_every: int = 0  # with windows, every so many-th layer sees all
    # Noise.
    dropout: float = 0.0
    attention_dropout: float = 0.0
    stochastic_depth: float = 0.0
    patch_dropout: float = 0.0
    # Output.
    pool: str = dataclasses.field(
        default="cls",
        metadata={"choices": ("cls", "gap", "cls_gap", "map", "distilled", "none")},
    )
    pool_prefix: bool = False  # gap and map read the prefix tokens too
    representation_size: int = 0  # 0: no tanh layer
    num_classes: int = 1000  # 0: features
    head_init_std: float = 0.0  # 0: zeros
    head_bias_init: float = 0.0
    image_size: int = 224  # what it is made for; any other that fits works

    @property
    def num_prefix(self) -> int:
        """Tokens before the patches."""
        return self.has_class_token + self.num_registers

    @property
    def has_class_token(self) -> bool:
        """Whether there is a class token: as the pool needs, unless said otherwise."""
        if self.class_token is None:
            return self.pool in CLASS_TOKEN_POOLS
        return self.class_token


@dataclasses.dataclass(frozen=True)
class ResNetSpec:
    """A BiT ResNet in flat words."""

    stem_units: tuple[int, ...]
    stem_width: int = 64  # 64 times the paper's width factor
    conv_epsilon: float = 1e-5
    group_norm_epsilon: float = 1e-5
    num_classes: int = 1000
    head_init_std: float = 0.0
    head_bias_init: float = 0.0
    image_size: int = 224


Spec = VitSpec | ResNetSpec

# Fields that weights, once they exist, don't depend on: noise and first values.
FREE_OF_WEIGHTS = (
    "dropout",
    "attention_dropout",
    "stochastic_depth",
    "patch_dropout",
    "token_init",
    "head_init_std",
    "head_bias_init",
)
