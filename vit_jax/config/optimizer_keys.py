"""Keys of how weights move: optimizer and learning rate."""

from vit_jax.config.key import Key

OPTIMIZER_KEYS = (
    Key(
        "optimizer.name",
        "adamw",
        "how gradients become updates: AdamW, Adam with the decay in the gradient, SGD "
        "with momentum, or LAMB for large batches",
        choices=("adamw", "adam", "sgd", "lamb"),
    ),
    Key(
        "optimizer.beta1",
        0.9,
        "decay of the first moment (adamw, adam, lamb)",
        minimum=0,
        maximum=0.9999,
    ),
    Key(
        "optimizer.beta2",
        0.999,
        "decay of the second moment (adamw, adam, lamb)",
        minimum=0,
        maximum=0.99999,
    ),
    Key(
        "optimizer.epsilon",
        1e-8,
        "what is added to the root of the second moment; 1e-6 is usual for lamb",
        minimum=0,
        maximum=1,
    ),
    Key("optimizer.momentum", 0.9, "momentum (sgd)", minimum=0, maximum=0.9999),
    Key(
        "optimizer.moment_dtype",
        "float32",
        "type of the first moment, or of sgd's momentum; bfloat16 halves its memory",
        choices=("float32", "bfloat16"),
    ),
    Key(
        "optimizer.weight_decay",
        0.0,
        "decay of kernels at each step, by decay_convention",
        minimum=0,
    ),
    Key(
        "optimizer.decay_convention",
        str,
        "times_rate: weight_decay * learning rate * kernel is taken off (AdamW in its "
        "paper and in PyTorch); independent: weight_decay * learning rate / peak rate "
        "* kernel, so that the peak doesn't change it (big_vision); gradient: "
        "weight_decay * kernel is added to the gradient before momentum or moments "
        "(SGD and Adam in PyTorch); unset: times_rate for adamw and lamb, gradient for "
        "sgd and adam",
        choices=("times_rate", "independent", "gradient"),
    ),
    Key(
        "optimizer.layer_decay",
        0.0,
        "the rate of each layer is that of the layer above times this, from the head, "
        "which has all of it, down to the stem; 0.65 to 0.75 is usual; 0: off",
        minimum=0,
        maximum=1,
    ),
    Key(
        "optimizer.rate_multipliers",
        (),
        "factors of the learning rate by parameter; the first rule that matches counts",
        entries="rule",
    ),
    Key(
        "optimizer.decay_multipliers",
        (),
        "factors of the decay by parameter; the first rule that matches counts, then "
        "1 for kernels and 0 for all else",
        entries="rule",
    ),
    Key(
        "optimizer.clip_norm",
        1.0,
        "largest global norm of the gradient; 0: no clipping",
        minimum=0,
    ),
    Key(
        "schedule.base_learning_rate",
        1e-3,
        "peak rate; with base_batch_size set, the peak rate at that batch",
        minimum=0,
    ),
    Key(
        "schedule.base_batch_size",
        0,
        "the peak is base_learning_rate * batch_size / this; 0: not scaled",
        minimum=0,
    ),
    Key(
        "schedule.decay",
        "cosine",
        "how the rate falls after the warmup; rsqrt: with one over the square root of "
        "the steps, to be used with a cooldown",
        choices=("cosine", "linear", "rsqrt", "constant"),
    ),
    Key(
        "schedule.start_rate",
        0.0,
        "rate at which the warmup starts; not scaled with the batch",
        minimum=0,
    ),
    Key(
        "schedule.end_rate",
        0.0,
        "rate at the end of cosine and linear; not scaled with the batch",
        minimum=0,
    ),
    Key(
        "schedule.timescale",
        10_000,
        "steps after the warmup until 1 / sqrt(2) of the peak (rsqrt)",
        minimum=1,
    ),
    Key(
        "schedule.total_steps",
        int,
        "optimizer steps; or set total_epochs or total_examples",
        minimum=1,
    ),
    Key(
        "schedule.total_epochs",
        float,
        "passes over the data; or set total_steps or total_examples",
        minimum=0,
        maximum=1e6,
    ),
    Key(
        "schedule.total_examples",
        float,
        "training examples seen; or set total_steps or total_epochs",
        minimum=0,
        maximum=1e15,
    ),
    Key(
        "schedule.stages",
        (),
        "sizes of the images in the course of a run, SIZE:SHARE:BATCH between blanks, "
        "the last size being model.image_size and the shares of the steps adding up to "
        "1; empty: one stage",
        entries="stage",
    ),
    Key("schedule.warmup_steps", 0, "steps of linear rise", minimum=0),
    Key(
        "schedule.warmup_epochs",
        0.0,
        "the same as passes over the data",
        minimum=0,
        maximum=1e6,
    ),
    Key(
        "schedule.warmup_examples",
        0.0,
        "the same as training examples",
        minimum=0,
        maximum=1e15,
    ),
    Key(
        "schedule.warmup_share",
        0.0,
        "the same as a share of all steps; 0.05 to 0.1 is usual",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "schedule.cooldown_steps",
        0,
        "last steps, over which the rate falls linearly to 0 (rsqrt, constant)",
        minimum=0,
    ),
    Key(
        "schedule.cooldown_epochs",
        0.0,
        "the same as passes over the data",
        minimum=0,
        maximum=1e6,
    ),
    Key(
        "schedule.cooldown_examples",
        0.0,
        "the same as training examples",
        minimum=0,
        maximum=1e15,
    ),
    Key(
        "schedule.cooldown_share",
        0.0,
        "the same as a share of all steps",
        minimum=0,
        maximum=0.999,
    ),
)
