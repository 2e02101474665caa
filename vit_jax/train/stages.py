"""Stages of a run: image size and batch by step, and a state carried from one to next.

Position tables are resized between two stages, and with them whatever follows a table
number by number: both moments of Adam, momentum and moving averages. The resizing is
linear with weights that are never negative, so a moment of the resized table's gradient
is what it would be if neighbours had moved together, and second moments stay above 0.
Anything else of the optimizer stays.

Source: Tan and Le 2021, arXiv 2104.00298, section 4; for ViT, Touvron et al. 2022,
arXiv 2204.07118, section 3.4.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax import trees
from vit_jax.models.adapt import Table, resize_table, table_grids
from vit_jax.models.spec import Spec


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stretch of steps with one image size and batch.

    Args:
      first_step: steps done when it starts.
      last_step: steps done when it ends.
      image_size: (rows, columns) of its training images.
      batch_size: examples of one step over all devices.
      first_position: examples that the run has taken when it starts.
    """

    first_step: int
    last_step: int
    image_size: tuple[int, int]
    batch_size: int
    first_position: int


def plan_stages(config: ConfigDict, total_steps: int) -> tuple[Stage, ...]:
    """The stages of a run, one where `schedule.stages` is empty.

    Raises:
      ValueError: the last size is not the model's, shares don't add up to 1, or a stage
        has no step.
    """
    full = configuration.image_shape(config)
    listed = _listed(config)
    sizes = [_size(size) for size, _, _ in listed]
    shares = [share for _, share, _ in listed]
    if sizes[-1] != full:
        raise ValueError(
            f"schedule.stages: the last size is {_shown(sizes[-1])} and must be "
            f"model.image_size, {_shown(full)}."
        )
    if not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise ValueError(
            f"schedule.stages: the shares add up to {sum(shares):g} and must to 1."
        )
    stages, step, position = [], 0, 0
    stretches = steps_and_batches(config, total_steps)
    for size, (steps, batch) in zip(sizes, stretches, strict=True):
        if not steps:
            raise ValueError(
                f"schedule.stages: the stage of {_shown(size)} has no step among "
                f"{total_steps}; train longer or leave it out."
            )
        stages.append(Stage(step, step + steps, size, batch, position))
        step, position = step + steps, position + steps * batch
    return tuple(stages)


def steps_and_batches(config: ConfigDict, total_steps: int) -> list[tuple[int, int]]:
    """(steps, batch) of each stage; unset batches are the run's."""
    _, shares, batches = zip(*_listed(config), strict=True)
    ends = [min(round(share * total_steps), total_steps) for share in np.cumsum(shares)]
    ends[-1] = total_steps
    lengths = np.diff([0, *ends]).tolist()
    batches = [own or config.data.train.batch_size for own in batches]
    return list(zip(lengths, batches, strict=True))


def mean_batch_size(config: ConfigDict) -> float:
    """Examples of a step on average over the run; unset batches are the run's."""
    batch = config.data.train.batch_size
    return sum(share * (own or batch) for _, share, own in _listed(config))


def scale_by_stage(
    schedule: optax.Schedule,
    following: optax.Schedule,
    stages: Sequence[Stage],
    batch_size: int,
) -> optax.Schedule:
    """Step -> the schedule's rate, what follows the batch as the stage's batch has it.

    Linear scaling, as `schedules.scaled_learning_rate` has it for the whole run.

    Args:
      schedule: for `batch_size`.
      following: the part of it that is scaled with the batch.
    """
    if all(stage.batch_size == batch_size for stage in stages):
        return schedule
    edges = jnp.array([stage.last_step for stage in stages[:-1]])
    more = jnp.array([stage.batch_size / batch_size - 1 for stage in stages])

    def scaled(step: jax.typing.ArrayLike) -> jax.Array:
        stage = jnp.sum(jnp.asarray(step) >= edges)
        return schedule(step) + more[stage] * following(step)

    return scaled


def stage_after(stages: Sequence[Stage], step: int) -> Stage:
    """The stage that takes step `step` + 1; the last one when all are done."""
    return next((stage for stage in stages if step < stage.last_step), stages[-1])


def stage_before(stages: Sequence[Stage], step: int) -> Stage:
    """The stage that took step `step`; the first one before there was any."""
    return next((stage for stage in stages if step <= stage.last_step), stages[-1])


def resize_state(
    state: Any,
    target: Any,
    spec: Spec,
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
) -> Any:
    """A training state for images of another size, each leaf where `target` says.

    Args:
      state: tree of arrays.
      target: tree of `jax.ShapeDtypeStruct` with shardings, for the new size.
      spec: the model's.
      old_grid: (rows, columns) of patches of the state.
      new_grid: likewise, of `target`.
    """
    if old_grid == new_grid:
        return state
    before, after = table_grids(spec, old_grid), table_grids(spec, new_grid)

    def moved(path: Sequence[Any], leaf: jax.Array, wanted: jax.ShapeDtypeStruct):
        name = _table_of(trees.path_name(path), before)
        if name is None or before[name] == after[name]:
            return leaf
        value = jax.device_get(leaf)
        if _is_of(value, before[name]):
            value = resize_table(value, before[name], after[name])
        elif value.shape != wanted.shape:
            # What sums a table up, such as a factored moment, starts anew.
            value = np.zeros(wanted.shape, wanted.dtype)
        return jax.make_array_from_callback(
            wanted.shape, wanted.sharding, lambda index: value[index]
        )

    return jax.tree_util.tree_map_with_path(moved, state, target)


def _table_of(path: str, tables: dict[str, Table]) -> str | None:
    """The position table that a leaf of the state belongs to."""
    return next((name for name in tables if f"/{path}".endswith(f"/{name}")), None)


def _is_of(value: np.ndarray, table: Table) -> bool:
    rows = table.num_prefix + table.grid[0] * table.grid[1]
    return value.ndim == 3 and value.shape[:2] == (1, rows)


def _listed(config: ConfigDict) -> tuple[tuple[Any, float, int], ...]:
    """(size, share, batch or 0) of each stage."""
    whole = ((configuration.image_shape(config), 1.0, 0),)
    return config.schedule.stages or whole


def _size(size: int | tuple[int, ...]) -> tuple[int, int]:
    sizes = size if isinstance(size, tuple) else (size,)
    return (sizes[0], sizes[-1])


def _shown(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
