"""Keys of the weights that a run starts from."""

from vit_jax.config.key import Key

INIT_KEYS = (
    Key(
        "init.weights",
        "",
        "weights to start from: a training workdir, its best/ or one of its "
        "checkpoints/STEP; a file of any layout that docs/weights.md lists (.npz, "
        "safetensors, PyTorch), a folder of Hugging Face's or timm's; or a published "
        "file by link or name (augreg:B/16). Empty: drawn anew. Read once, at the "
        "start of a run; the optimizer starts anew",
    ),
    Key(
        "init.variant",
        "",
        "name of their model, ours or timm's, where a file leaves something open "
        "(heads, GELU, epsilon, what images it takes); empty: by the file alone",
    ),
    Key(
        "init.head",
        "auto",
        "what happens to their head: keep takes it over, reset starts a new one, auto "
        "keeps it where number and names of the classes are the same",
        choices=("auto", "keep", "reset"),
    ),
)
