"""The state that a run starts with: fresh, or that of a checkpoint."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from vit_jax import processes
from vit_jax.checkpoint import (
    DamagedCheckpoint,
    complete_steps,
    has_item,
    restore,
    set_aside,
    stored_shapes,
)
from vit_jax.models.adapt import table_grids
from vit_jax.models.described import grid_of
from vit_jax.train.assemble import Parts
from vit_jax.train.saving import items_of, state_of
from vit_jax.train.stages import resize_state, stage_before
from vit_jax.train.state import TrainState, create_state
from vit_jax.workdir import Workdir

# Of patches, more than any image has.
_MOST_ROWS = 256


def fresh_state(parts: Parts) -> TrainState:
    """The state before the first step, for images of the first stage's size.

    Weights to start from belong to the model's size; they are taken over there and
    resized from it.
    """
    given = parts.initial.take() if parts.initial else None
    state = create_state(
        parts.init, parts.optimizer, parts.state, parts.config.seed, given
    )
    return resized(parts, state, parts.image_shape[:2], parts.stages[0].image_size)


def resized(
    parts: Parts, state: TrainState, old: tuple[int, int], new: tuple[int, int]
) -> TrainState:
    """The state for images of (rows, columns) `new` instead of `old`."""
    if old == new:
        return state
    before, after = parts.at(old), parts.at(new)
    return resize_state(state, after.state, parts.spec, before.grid, after.grid)


def restore_newest(
    workdir: Workdir, parts: Parts, say: Callable[[str], None], *, leads: bool
) -> tuple[int, TrainState, tuple[int, int]]:
    """(step, state, image size) of the newest checkpoint, or, where
    `checkpoint.on_damage` says so, of the newest one that all processes can read.

    The state stays for images of the (rows, columns) that it was saved for.

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
            state, size = _by_all(workdir, step, parts, say)
        except DamagedCheckpoint as error:
            damaged.append((step, error))
            if parts.config.checkpoint.on_damage == "error":
                break
            continue
        for bad, error in damaged:
            say(_passed_over(error))
            if leads:
                say(f"it is kept as {set_aside(workdir.checkpoints, bad, 'damaged')}")
        return step, state, size
    raise damaged[0][1]


def _by_all(
    workdir: Workdir, step: int, parts: Parts, say: Callable[[str], None]
) -> tuple[TrainState, tuple[int, int]]:
    """What `_restored` gives if it gives it on every process: all take the same step.

    Raises:
      DamagedCheckpoint: a process, this or another, found the step damaged.
      RuntimeError: another process failed otherwise.
    """
    error: Exception | None = None
    try:
        restored = _restored(workdir, step, parts, say)
    except Exception as raised:
        error = raised
    damage = isinstance(error, DamagedCheckpoint)
    worst = processes.largest(0 if error is None else 1 if damage else 2)
    if error is not None and (worst == 1 or not damage):
        raise error
    where = f"checkpoint {workdir.checkpoints / str(step)}"
    if worst == 1:
        raise DamagedCheckpoint(f"{where} is damaged (as another process reads it). ")
    if worst == 2:
        raise RuntimeError(f"{where}: another process failed to read it and says why.")
    return restored


def _restored(
    workdir: Workdir, step: int, parts: Parts, say: Callable[[str], None]
) -> tuple[TrainState, tuple[int, int]]:
    """(state, image size) as a step's checkpoint has them.

    Its average starts at the weights where none was kept.
    """
    size = _trained_size(workdir, step, parts)
    items = items_of(parts.at(size).state)
    lacks = "ema_params" in items and not has_item(
        workdir.checkpoints, step, "ema_params"
    )
    if lacks:
        del items["ema_params"]
    state = state_of(restore(workdir.checkpoints, step, items))
    if lacks:
        say("the checkpoint has no moving average: it starts at the weights")
        average = jax.tree.map(jnp.copy, state.params)
        state = dataclasses.replace(state, ema_params=average)
    return state, size


def _trained_size(workdir: Workdir, step: int, parts: Parts) -> tuple[int, int]:
    """Image size that a step's checkpoint is for, whatever the stages were then.

    Where no stage of this run has it, it is told by the tables, of images whose sides
    are to one another as the model's. If nothing fits, who restores says what doesn't.
    """
    sizes = [stage_before(parts.stages, step).image_size]
    sizes += [stage.image_size for stage in parts.stages]
    stored = stored_shapes(workdir.checkpoints, step)

    def fits(size: tuple[int, int]) -> bool:
        tables = table_grids(parts.spec, grid_of(parts.model, size))
        return all(
            stored.get(name, ())[:2]
            == (1, table.num_prefix + table.grid[0] * table.grid[1])
            for name, table in tables.items()
        )

    full = parts.image_shape[:2]
    rows, columns = grid_of(parts.model, full)
    sizes += [
        (full[0] // rows * k, full[1] // columns * round(k * columns / rows))
        for k in range(1, _MOST_ROWS + 1)
        if rows and round(k * columns / rows)
    ]
    return next(filter(fits, sizes), sizes[0])


def _passed_over(error: DamagedCheckpoint) -> str:
    """The first sentence of the error: the rest says what to do about it."""
    return str(error).split("). ")[0] + ")"
