"""Orbax checkpoints of a run: saved while training goes on, restored onto any mesh.

A step's folder holds items: `params`, the weights alone, and `training`, all else that
an exact continuation needs. So weights are read without knowing the optimizer.
"""

from vit_jax.checkpoint.reading import (
    DamagedCheckpoint,
    StorageAway,
    restore,
    restore_params,
    stored_shapes,
)
from vit_jax.checkpoint.steps import (
    choose_step,
    complete_steps,
    has_item,
    set_aside,
)
from vit_jax.checkpoint.writing import Checkpoints, SaveFailed

__all__ = [
    "Checkpoints",
    "DamagedCheckpoint",
    "SaveFailed",
    "StorageAway",
    "choose_step",
    "complete_steps",
    "has_item",
    "restore",
    "restore_params",
    "set_aside",
    "stored_shapes",
]
