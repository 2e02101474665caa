"""Keys of the weights that a run starts from."""

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
