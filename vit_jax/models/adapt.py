"""Weights of one model made to fit another: resized tables, a new head, a report."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from vit_jax import trees
from vit_jax.layers.resample import resize_grid
from vit_jax.models.spec import ResNetSpec, Spec

_LISTED = 20


@dataclasses.dataclass(frozen=True)
class Table:
    """How the rows of a position table lie: prefix rows, then a grid row by row."""

    grid: tuple[int, int]
    num_prefix: int = 0


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of each parameter, by name.

    Attributes:
      loaded: as they were, or resized.
      resized: table -> (old grid, new grid).
      reset: those that keep the new model's first values.
      dropped: those that the new model has no place for.
      head: (classes of the weights, classes of the model); 0 where there is no head.
      zero_head: whether a head was loaded that is all zeros.
      cast: type of the weights -> how many parameters had it and got the model's.
    """

    loaded: tuple[str, ...]
    resized: dict[str, tuple[tuple[int, int], tuple[int, int]]]
    reset: tuple[str, ...]
    dropped: tuple[str, ...]
    head: tuple[int, int]
    zero_head: bool
    cast: dict[str, int] = dataclasses.field(default_factory=dict)

    def lines(self) -> list[str]:
        """The report in sentences, one a line."""
        lines = [f"loaded {len(self.loaded)} parameters"]
        for name, (old, new) in self.resized.items():
            lines.append(f"resized {name}: grid {_grid(old)} -> {_grid(new)}")
        lines += [
            f"cast {number} parameters of {dtype} to the model's type"
            for dtype, number in self.cast.items()
        ]
        if self.reset:
            lines.append(f"reset head ({self.head[0]} -> {self.head[1]} classes)")
        if self.dropped:
            lines.append(f"dropped {', '.join(self.dropped)}")
        if self.zero_head:
            lines.append(ZERO_HEAD)
        return lines


ZERO_HEAD = (
    "warning: the head is all zeros, so every class is equally likely; such weights "
    "are for fine-tuning (init.head=reset)"
)
# The same of a file that was converted.
ZERO_HEAD_NOTE = (
    "the head is all zeros: the weights are for fine-tuning, and predict nothing"
)


def adapt(
    params: Mapping[str, Any],
    target: Mapping[str, Any],
    *,
    old: tuple[Spec, tuple[int, int]],
    new: tuple[Spec, tuple[int, int]],
    keep_head: bool,
) -> tuple[dict[str, Any], Report]:
    """(the weights that a new model takes over, report); a reset head is left out.

    Args:
      params: tree of arrays.
      target: tree of arrays or `jax.ShapeDtypeStruct` of the new model.
      old: (spec, grid of patches in rows and columns) that `params` belong to.
      new: the same of the new model.
      keep_head: whether the head is taken over; without, the new model starts its own.
        The tanh layer before it is of the body: it is taken over either way, where the
        new model has one.

    A table whose grid stays is the same array, and so is all whose type stays: files of
    half precision are made the model's, whose optimizer adds up small steps.

    Raises:
      ValueError: a parameter of the new model, the head aside, is missing or has
        another shape; one message with all of them.
    """
    given, wanted = trees.flatten(params), trees.flatten(target)
    skipped = () if keep_head else ("head/",)
    needed = [name for name in wanted if not name.startswith(skipped)]
    before, after = table_grids(*old), table_grids(*new)
    taken, resized, faults = {}, {}, []
    cast: Counter[str] = Counter()
    for name in needed:
        if name not in given:
            faults.append(f"{name} {_shape(wanted[name])} is missing in the weights")
            continue
        leaf = given[name]
        if name in before and name in after and before[name] != after[name]:
            leaf = resize_table(leaf, before[name], after[name])
            resized[name] = (before[name].grid, after[name].grid)
        if tuple(leaf.shape) != tuple(wanted[name].shape):
            faults.append(
                f"{name} is {_shape(given[name])} in the weights, "
                f"{_shape(wanted[name])} in the model"
            )
        dtype = np.dtype(wanted[name].dtype)
        if np.dtype(leaf.dtype) != dtype:
            cast[np.dtype(leaf.dtype).name] += 1
            leaf = leaf.astype(dtype)
        taken[name] = leaf
    if faults:
        raise ValueError(_misfit(faults))
    return trees.unflatten(taken), Report(
        loaded=tuple(taken),
        resized={
            name: grids for name, grids in resized.items() if grids[0] != grids[1]
        },
        reset=tuple(name for name in wanted if name not in taken),
        dropped=tuple(name for name in given if name not in wanted),
        head=(count_classes(params), count_classes(target)),
        zero_head=keep_head and head_is_zero(params),
        cast=dict(cast),
    )


def resize_table(table: Any, old: Table, new: Table) -> Any:
    """A position table, or what has its shape such as a moment of it, on another grid.

    The same layout gives the same array. Where no prefix rows are wanted, those there
    are are cut off; other numbers of them don't go together, and the table stays.
    """
    if old == new or new.num_prefix not in (0, old.num_prefix):
        return table
    rows = np.asarray(table)[:, old.num_prefix - new.num_prefix :]
    if old.grid == new.grid:
        return rows
    return resize_grid(rows, old.grid, new.grid, num_prefix=new.num_prefix)


def resize_params(
    params: Any, spec: Spec, old_grid: tuple[int, int], new_grid: tuple[int, int]
) -> Any:
    """The weights with position tables for another grid; the same grid, the same tree.

    Args:
      params: tree of arrays; each stays on its devices.
      spec: the model's.
      old_grid: (rows, columns) of patches.
      new_grid: likewise.
    """
    if old_grid == new_grid:
        return params
    before, after = table_grids(spec, old_grid), table_grids(spec, new_grid)

    def moved(name: str, leaf: Any) -> Any:
        if name not in before:
            return leaf
        value = resize_table(jax.device_get(leaf), before[name], after[name])
        return jax.make_array_from_callback(
            value.shape, leaf.sharding, lambda index: value[index]
        )

    return trees.map_named(moved, params)


def table_grids(spec: Spec, grid: tuple[int, int]) -> dict[str, Table]:
    """Name -> layout of each parameter that a grid of (rows, columns) gives its size.

    A relative table is a grid of distances, 2 R - 1 by 2 C - 1; in windows R and C are
    the window's.
    """
    if isinstance(spec, ResNetSpec):
        return {}
    slots = spec.num_prefix if spec.prefix_positions else 0
    if spec.position == "learned_1d":
        return {"position/table": Table(grid, slots)}
    if spec.position == "learned_2d":
        rows, columns = grid
        return {
            "position/rows": Table((rows, 1)),
            "position/columns": Table((1, columns)),
        }
    if spec.position != "relative":
        return {}
    window = (spec.window_size, spec.window_size)
    tables = {}
    for layer in range(spec.depth):
        rows, columns = grid if _sees_all(spec, layer) else window
        name = f"encoder/block_{layer}/attention/relative/table"
        tables[name] = Table((2 * rows - 1, 2 * columns - 1))
    return tables


def head_is_zero(params: Mapping[str, Any]) -> bool:
    """Whether there are heads and all their kernels are zeros: classes look alike.

    The pretrained files of the original ViT are published with such heads.
    """
    kernels = [
        leaf
        for name, leaf in trees.flatten(params).items()
        if name.startswith("head/") and name.endswith("kernel")
    ]
    return bool(kernels) and not any(np.any(np.asarray(leaf)) for leaf in kernels)


def count_classes(params: Mapping[str, Any]) -> int:
    """How many classes the head, or both heads of a distilled model, have; 0: none."""
    flat = trees.flatten(params)
    sizes = [
        leaf.shape[-1]
        for name, leaf in flat.items()
        if name.startswith("head/") and name.endswith("kernel")
    ]
    return sizes[0] if sizes else 0


def _sees_all(spec: Spec, layer: int) -> bool:
    if not spec.window_size:
        return True
    return bool(spec.global_every) and (layer + 1) % spec.global_every == 0


def _misfit(faults: list[str]) -> str:
    more = f"\n  … and {len(faults) - _LISTED} more" if len(faults) > _LISTED else ""
    return (
        f"the weights don't fit the model ({len(faults)} parameters):\n  "
        + "\n  ".join(faults[:_LISTED])
        + more
    )


def _shape(leaf: Any) -> str:
    return str(list(leaf.shape))


def _grid(grid: tuple[int, int]) -> str:
    return f"{grid[0]} x {grid[1]}"
