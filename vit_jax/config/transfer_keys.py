"""Keys of what a run starts from, its stages, and what is evaluated beside."""

from vit_jax.config.key import Key

INIT_KEYS = (
    Key(
        "init.weights",
        "",
        "weights to start from: a training workdir, its best/ or one of its "
        "checkpoints/STEP, or a file of weights; empty: drawn anew. Read once, at "
        "the start of a run; the optimizer starts anew",
    ),
    Key(
        "init.head",
        "auto",
        "what happens to their head: keep takes it over, reset starts a new one, auto "
        "keeps it where number and names of the classes are the same",
        choices=("auto", "keep", "reset"),
    ),
)

STAGE_KEYS = (
    Key(
        "schedule.stages",
        (),
        "sizes of the images in the course of a run, SIZE:SHARE:BATCH between blanks, "
        "the last size being model.image_size and the shares of the steps adding up to "
        "1; empty: one stage",
        entries="stage",
    ),
    Key(
        "train.cache_features",
        False,
        "whether what the frozen part of the model (train.freeze: all but the head) "
        "gives for each training image is computed once and kept in memory; needs "
        "images that stay the same (augment.crop=resize, no other change)",
    ),
)

EVALUATION_KEYS = (
    Key(
        "evals.sets",
        (),
        "sets to evaluate beside data.eval, NAME=SOURCE:SPLIT between blanks; their "
        "figures are eval/NAME/accuracy and so on",
        entries="set",
    ),
    Key(
        "checkpoint.best_metric",
        "",
        "figure whose best checkpoint is kept in best/, such as eval/accuracy; empty: "
        "none is",
    ),
    Key(
        "checkpoint.best_mode",
        "max",
        "whether the largest or the smallest figure is the best",
        choices=("max", "min"),
    ),
)
