"""Vision Transformers in JAX: train, evaluate, predict, convert.

The package's front door is lazy: importing it loads nothing else, so that `--help`,
config checks and data workers start at once and never touch a device.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "create_model": "vit_jax.models.factory",
    "list_models": "vit_jax.models.variants",
    "load": "vit_jax.weights",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """The public function of that name, imported at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vit_jax' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
