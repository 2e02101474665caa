"""The state that a run starts with: fresh, or that of a checkpoint."""

from collections.abc import Callable

from vit_jax.checkpoint import (
    DamagedCheckpoint,
    complete_steps,
    restore,
    set_aside,
)
from vit_jax.train.assemble import Parts
from vit_jax.train.saving import items_of, state_of
from vit_jax.train.state import TrainState, abstract_state, create_state
from vit_jax.workdir import Workdir


def fresh_state(parts: Parts) -> TrainState:
    """The state before the first step."""
    return create_state(
        parts.model, parts.optimizer, parts.image_shape, parts.mesh, parts.config.seed
    )


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
    abstract = items_of(
        abstract_state(parts.model, parts.optimizer, parts.image_shape, parts.mesh)
    )
    damaged: list[tuple[int, DamagedCheckpoint]] = []
    for step in steps:
        try:
            items = restore(workdir.checkpoints, step, abstract)
        except DamagedCheckpoint as error:
            damaged.append((step, error))
            if parts.config.checkpoint.on_damage == "error":
                break
            continue
        for bad, error in damaged:
            say(_passed_over(error))
            if leads:
                say(f"it is kept as {set_aside(workdir.checkpoints, bad, 'damaged')}")
        return step, state_of(items)
    raise damaged[0][1]


def _passed_over(error: DamagedCheckpoint) -> str:
    """The first sentence of the error: the rest says what to do about it."""
    return str(error).split("). ")[0] + ")"
