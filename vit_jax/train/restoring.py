"""The state that a run starts with: fresh, or that of a checkpoint."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from vit_jax.checkpoint import (
    DamagedCheckpoint,
    complete_steps,
    has_item,
    restore,
    set_aside,
)
from vit_jax.train.assemble import Parts
from vit_jax.train.saving import items_of, state_of
from vit_jax.train.state import TrainState, create_state
from vit_jax.workdir import Workdir


def fresh_state(parts: Parts) -> TrainState:
    """The state before the first step."""
    return create_state(parts.init, parts.optimizer, parts.state, parts.config.seed)


def restore_newest(
    workdir: Workdir, parts: Parts, say: Callable[[str], None], *, leads: bool
) -> tuple[int, TrainState]:
    """(step, state) of the newest checkpoint, or, where `checkpoint.on_damage` says so,
    of the newest one that can be read.

    Args:
      say: takes a sentence about each checkpoint that is passed over; its folder is
        renamed and kept.
      leads: whether this process is the one that renames.

    Raises:
      DamagedCheckpoint: the newest one is damaged, or all are.
      ValueError: it holds another optimizer's state.
    """
    steps = complete_steps(workdir.checkpoints)[::-1]
    damaged: list[tuple[int, DamagedCheckpoint]] = []
    for step in steps:
        try:
            state = _restored(workdir, step, parts.state, say)
        except DamagedCheckpoint as error:
            damaged.append((step, error))
            if parts.config.checkpoint.on_damage == "error":
                break
            continue
        for bad, error in damaged:
            say(_passed_over(error))
            if leads:
                say(f"it is kept as {set_aside(workdir.checkpoints, bad, 'damaged')}")
        return step, state
    raise damaged[0][1]


def _restored(
    workdir: Workdir, step: int, abstract: TrainState, say: Callable[[str], None]
) -> TrainState:
    """The state of a step, whose average starts at the weights where none was kept."""
    items = items_of(abstract)
    lacks = "ema_params" in items and not has_item(
        workdir.checkpoints, step, "ema_params"
    )
    if lacks:
        del items["ema_params"]
    state = state_of(restore(workdir.checkpoints, step, items))
    if not lacks:
        return state
    say("the checkpoint has no moving average: it starts at the weights")
    return dataclasses.replace(state, ema_params=jax.tree.map(jnp.copy, state.params))


def _passed_over(error: DamagedCheckpoint) -> str:
    """The first sentence of the error: the rest says what to do about it."""
    return str(error).split("). ")[0] + ")"
