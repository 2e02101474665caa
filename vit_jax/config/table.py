"""Every key of the configuration, in the order in which people read them."""

import difflib

from vit_jax.config.data_keys import DATA_KEYS
from vit_jax.config.form_keys import FORM_KEYS
from vit_jax.config.init_keys import INIT_KEYS
from vit_jax.config.key import Key
from vit_jax.config.model_keys import MODEL_KEYS
from vit_jax.config.optimizer_keys import OPTIMIZER_KEYS
from vit_jax.config.training_keys import TRAINING_KEYS

KEYS = (
    Key(
        "seed",
        0,
        "source of every random number of the run",
        minimum=0,
        maximum=2**31 - 1,
    ),
    *MODEL_KEYS,
    *FORM_KEYS,
    *INIT_KEYS,
    *DATA_KEYS,
    *OPTIMIZER_KEYS,
    *TRAINING_KEYS,
)
BY_NAME = {key.name: key for key in KEYS}
_SHOWN = 5


def unknown_key(name: str) -> str:
    """What to tell somebody who wrote `name`, which is no key."""
    members = [known for known in BY_NAME if known.startswith(f"{name}.")]
    if members:
        more = ", …" if len(members) > _SHOWN else ""
        return (
            f"{name} is a group of keys; set one of {', '.join(members[:_SHOWN])}{more}"
        )
    close = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
    leaf = name.rsplit(".", 1)[-1]
    same_leaf = [known for known in BY_NAME if known.rsplit(".", 1)[-1] == leaf]
    meant = (same_leaf or close)[:1]
    hint = f"did you mean {meant[0]}?" if meant else "`vit_jax config` lists them."
    return f"{name} is not a configuration key; {hint}"
