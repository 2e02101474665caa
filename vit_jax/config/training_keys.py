"""Keys of a run: how weights move, how a step runs, what is kept and written."""

from vit_jax.config.key import Key

TRAINING_KEYS = (
    # How weights move.
    Key(
        "optimizer.name",
        "adamw",
        "how gradients become updates: AdamW, or SGD with momentum",
        choices=("adamw", "sgd"),
    ),
    Key(
        "optimizer.beta1",
        0.9,
        "decay of the first moment (adamw)",
        minimum=0,
        maximum=0.9999,
    ),
    Key(
        "optimizer.beta2",
        0.999,
        "decay of the second moment (adamw)",
        minimum=0,
        maximum=0.99999,
    ),
    Key("optimizer.momentum", 0.9, "momentum (sgd)", minimum=0, maximum=0.9999),
    Key(
        "optimizer.weight_decay",
        0.0,
        "decay of kernels at each step, times the learning rate",
        minimum=0,
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
        "how the rate falls after the warmup",
        choices=("cosine", "linear", "constant"),
    ),
    Key("schedule.total_steps", int, "optimizer steps; or set total_epochs", minimum=1),
    Key(
        "schedule.total_epochs",
        float,
        "passes over the data; or set total_steps",
        minimum=0,
        maximum=1e6,
    ),
    Key("schedule.warmup_steps", 0, "steps of linear rise from 0", minimum=0),
    Key(
        "schedule.warmup_share",
        0.0,
        "the same as a share of all steps; 0.05 to 0.1 is usual",
        minimum=0,
        maximum=0.999,
    ),
    # How a step runs.
    Key(
        "train.compute_dtype",
        "float32",
        "type of activations; weights, loss and norms stay float32",
        choices=("float32", "bfloat16"),
    ),
    Key(
        "train.loss",
        "softmax",
        "softmax or sigmoid cross-entropy",
        choices=("softmax", "sigmoid"),
    ),
    Key("mesh.data", -1, "devices that share the batch; -1: all that are left"),
    Key("mesh.fsdp", 1, "devices that also share the weights", minimum=1),
    Key("mesh.tensor", 1, "devices that share each layer", minimum=1),
    # What is kept and written.
    Key(
        "checkpoint.every_steps",
        1000,
        "optimizer steps between saves; the last step is always saved; 0: only there",
        minimum=0,
    ),
    Key(
        "checkpoint.every_minutes",
        0.0,
        "minutes between saves, beside every_steps; 0: none by the clock",
        minimum=0,
    ),
    Key("checkpoint.keep", 2, "newest checkpoints that stay", minimum=1),
    Key(
        "checkpoint.keep_every_steps",
        0,
        "checkpoints of multiples of it are saved and stay for good; 0: none",
        minimum=0,
    ),
    Key(
        "checkpoint.on_damage",
        "error",
        "what a damaged newest checkpoint does: it is named and ends the command, or "
        "it is kept aside and the run goes on from the one before",
        choices=("error", "previous"),
    ),
    Key(
        "evals.every_steps",
        0,
        "optimizer steps between evaluations; 0: only after the last step",
        minimum=0,
    ),
    Key("log.every_steps", 50, "optimizer steps between metrics", minimum=1),
    Key("log.tensorboard", True, "whether to write TensorBoard files"),
    Key("log.progress", True, "whether to draw a progress bar"),
)
