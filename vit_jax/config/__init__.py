"""Every configuration key, once: default, unit, range and meaning.

A recipe in `configs/` calls `default_config()` and changes values; it never adds a key.
The command line changes values on top (`--config.schedule.base_learning_rate=3e-4`).
Keys whose default is a type (`int`, `float`) start unset; what unset means is said in
their description. A new key is an entry of `model_keys.py`, `init_keys.py`,
`data_keys.py`, `optimizer_keys.py` or `training_keys.py`.
"""

from vit_jax.config.checks import check, faults_in, refuse
from vit_jax.config.key import Key, shown
from vit_jax.config.table import KEYS
from vit_jax.config.values import (
    default_config,
    describe,
    flatten,
    from_values,
    image_shape,
    override,
    to_json,
    unknown_keys,
)

__all__ = [
    "KEYS",
    "Key",
    "check",
    "default_config",
    "describe",
    "faults_in",
    "flatten",
    "from_values",
    "image_shape",
    "override",
    "refuse",
    "shown",
    "to_json",
    "unknown_keys",
]
