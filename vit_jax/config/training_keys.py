"""Keys of a run: how a step runs, what is kept and written."""

from vit_jax.config.key import Key

TRAINING_KEYS = (
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
    Key(
        "train.accumulation_steps",
        1,
        "micro-batches that a step's batch is cut into, to fit a large batch into "
        "memory; changes no gradient",
        minimum=1,
    ),
    Key(
        "train.scan",
        False,
        "whether blocks run as a loop that is compiled once: quicker to compile, the "
        "same results and checkpoints",
    ),
    Key(
        "train.remat",
        "none",
        "what the backward pass computes again to save memory: nothing, all but dense "
        "layers, or whole blocks; the results stay",
        choices=("none", "dots", "full"),
    ),
    Key(
        "train.freeze",
        (),
        "parameters that stay as they are and have no moments",
        entries="pattern",
    ),
    Key(
        "train.cache_features",
        False,
        "whether what the frozen part of the model (train.freeze: all but the head) "
        "gives for each training image is computed once and kept in memory; needs "
        "images that stay the same (augment.crop=resize, no other change)",
    ),
    Key(
        "train.ema_decay",
        0.0,
        "share that the moving average of the weights keeps at each step; the average "
        "is what evaluation and prediction use; 0: none",
        minimum=0,
        maximum=0.999999,
    ),
    Key(
        "train.max_nonfinite_steps",
        0,
        "steps whose loss or gradient is not finite that may be passed over before "
        "the run stops; 0: it stops at the first",
        minimum=0,
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
        "checkpoint.best_metric",
        "",
        "figure whose best checkpoint is kept in best/, such as eval/accuracy; empty: "
        "none is",
    ),
    Key(
        "checkpoint.best_mode",
        str,
        "whether the largest or the smallest figure is the best; unset: as the figure "
        "has it, losses small, accuracies large",
        choices=("max", "min"),
    ),
    Key(
        "evals.every_steps",
        0,
        "optimizer steps between evaluations; 0: only after the last step",
        minimum=0,
    ),
    Key(
        "evals.sets",
        (),
        "sets to evaluate beside data.eval, NAME=SOURCE:SPLIT between blanks; their "
        "figures are eval/NAME/accuracy and so on",
        entries="set",
    ),
    Key(
        "evals.per_class",
        False,
        "whether each evaluation has eval/mean_class_accuracy too, and writes each "
        "set's accuracies of classes and confusion matrix to evaluation.json",
    ),
    Key(
        "evals.real",
        "",
        "file of ImageNet-ReaL's labels, real.json: evaluations of ImageNet's "
        "validation images have eval/real_accuracy too; empty: none",
    ),
    Key("log.every_steps", 50, "optimizer steps between metrics", minimum=1),
    Key("log.tensorboard", True, "whether to write TensorBoard files"),
    Key("log.progress", True, "whether to draw a progress bar"),
)
