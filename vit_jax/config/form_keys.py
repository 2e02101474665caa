"""Keys of the parts of a network: what a variant decides unless it is said."""

from vit_jax.config.key import Key

# Forms of the blocks, which public weights need.
FORM_KEYS = (
    Key(
        "model.stem_units",
        tuple,
        "bottlenecks of each ResNet stage, as in 3,4,9 (stem resnet); unset: the "
        "variant's own",
        entries="count",
    ),
    Key(
        "model.stem_width",
        int,
        "channels of the ResNet's first convolution, a multiple of 32; each stage "
        "doubles them (stem resnet, ResNets); unset: the variant's own",
        minimum=32,
    ),
    Key(
        "model.stem_bias",
        bool,
        "whether the patch embedding has a bias; unset: the variant's own",
    ),
    Key(
        "model.stem_norm",
        bool,
        "whether a norm follows the patch embedding; unset: the variant's own",
    ),
    Key(
        "model.stem_projection",
        bool,
        "whether a projection follows the ResNet stem even where its channels fit "
        "the width; unset: the variant's own",
    ),
    Key(
        "model.conv_epsilon",
        float,
        "what weight standardisation adds to the deviation, outside the square root "
        "(ResNets); unset: the variant's own",
        minimum=0,
    ),
    Key(
        "model.group_norm_epsilon",
        float,
        "what group norms add to the variance (ResNets); unset: the variant's own",
        minimum=0,
    ),
    Key(
        "model.class_token",
        bool,
        "whether there is a class token, whatever the pool; unset: the variant's own",
    ),
    Key(
        "model.num_registers",
        int,
        "register tokens beside the patches; unset: the variant's own",
        minimum=0,
    ),
    Key(
        "model.prefix_positions",
        bool,
        "whether the position table has rows for class token and registers; unset: "
        "the variant's own",
    ),
    Key(
        "model.token_init",
        str,
        "how class token and position table start: the paper's way, or truncated "
        "normals of deviation 0.02; unset: the variant's own",
        choices=("paper", "truncated"),
    ),
    Key(
        "model.mlp",
        str,
        "form of the MLPs; unset: the variant's own",
        choices=("plain", "swiglu"),
    ),
    Key(
        "model.norm",
        str,
        "kind of norms; unset: the variant's own",
        choices=("layer", "rms"),
    ),
    Key(
        "model.first_norm",
        bool,
        "whether a norm stands before the blocks, as in CLIP; unset: the variant's own",
    ),
    Key(
        "model.final_norm",
        str,
        "where the last norm stands: over all tokens, or after pooling; unset: the "
        "variant's own",
        choices=("tokens", "pooled", "none"),
    ),
    Key(
        "model.qkv_bias",
        bool,
        "whether queries, keys and values have a bias; unset: the variant's own",
    ),
    Key(
        "model.out_bias",
        bool,
        "whether the attention output has a bias; unset: the variant's own",
    ),
    Key(
        "model.mlp_bias",
        bool,
        "whether the MLPs have biases; unset: the variant's own",
    ),
    Key(
        "model.qk_norm",
        bool,
        "whether queries and keys are normed; unset: the variant's own",
    ),
    Key(
        "model.inner_norm",
        bool,
        "whether MLPs norm their hidden layer and attention its joined heads; unset: "
        "the variant's own",
    ),
    Key(
        "model.layer_scale",
        float,
        "first value of the scales of residual branches; 0: none; unset: the "
        "variant's own",
        minimum=0,
    ),
    Key(
        "model.window_size",
        int,
        "side of attention windows in patches; 0: none; unset: the variant's own",
        minimum=0,
    ),
    Key(
        "model.global_every",
        int,
        "with windows, every so many-th block sees all; 0: none does; unset: the "
        "variant's own",
        minimum=0,
    ),
    Key(
        "model.pool_prefix",
        bool,
        "whether gap and map pooling read class token and registers too; unset: the "
        "variant's own",
    ),
)
