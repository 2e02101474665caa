"""Keys of the network."""

from vit_jax.config.key import Key

MODEL_KEYS = (
    Key(
        "model.variant",
        "B/16",
        "a name that vit_jax.list_models() gives; auto: the model of init.weights, "
        "with its values for the model keys that are unset",
    ),
    Key(
        "model.image_size",
        (224,),
        "pixels the model sees: one number for a square, or (rows, columns)",
        minimum=1,
    ),
    Key("model.channels", 3, "1 for grey images, 3 for colour", choices=(1, 3)),
    Key(
        "model.num_classes",
        int,
        "outputs of the head; unset: as many as the training data has classes",
        minimum=1,
    ),
    Key("model.width", int, "size of a token; unset: the variant's own", minimum=1),
    Key("model.depth", int, "encoder blocks; unset: the variant's own", minimum=1),
    Key("model.num_heads", int, "attention heads; unset: the variant's own", minimum=1),
    Key("model.mlp_dim", int, "width of the MLPs; unset: the variant's own", minimum=1),
    Key(
        "model.patch_size",
        int,
        "side of a patch in pixels; unset: the variant's own",
        minimum=1,
    ),
    Key(
        "model.stem",
        str,
        "what makes tokens of pixels: one patch layer, a stack of small convolutions, "
        "which helps on few images, or the ResNet of a hybrid variant; unset: the "
        "variant's own",
        choices=("patch", "conv", "resnet"),
    ),
    Key(
        "model.position",
        str,
        "position embedding; unset: the variant's own",
        choices=(
            "none",
            "learned_1d",
            "learned_2d",
            "sincos_2d",
            "sincos_2d_mae",
            "relative",
            "rope",
        ),
    ),
    Key(
        "model.pool",
        str,
        "what the head reads: the class token, the mean of all patch tokens, both one "
        "after the other, an attention pooling, or the class and the distillation "
        "token, with a head each; unset: the variant's own",
        choices=("cls", "gap", "cls_gap", "map", "distilled"),
    ),
    Key(
        "model.gelu",
        str,
        "form of the activation; unset: the variant's own",
        choices=("tanh", "exact", "quick"),
    ),
    Key(
        "model.norm_epsilon",
        float,
        "what norms add to the variance; unset: the variant's own",
        minimum=0,
    ),
    Key(
        "model.representation_size",
        int,
        "width of the tanh layer before the head, for pretraining; 0: none; unset: the "
        "variant's own",
        minimum=0,
    ),
    Key(
        "model.head_init_std",
        float,
        "standard deviation of the head's first weights; 0: zeros; unset: the "
        "variant's own",
        minimum=0,
    ),
    Key(
        "model.head_bias_init",
        float,
        "first value of the head's bias; -6.9 or -10 go with sigmoid losses; unset: "
        "the variant's own",
    ),
    Key(
        "model.dropout",
        float,
        "share of activations dropped after the embedding, attention output and MLP "
        "layers; unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "model.attention_dropout",
        float,
        "share of attention weights dropped; unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "model.stochastic_depth",
        float,
        "share of residual branches dropped at the last block, rising linearly from 0; "
        "unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "model.patch_dropout",
        float,
        "share of patches left out of each training image; unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
)
