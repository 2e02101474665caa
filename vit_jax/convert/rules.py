"""Two-way tables between our parameter names and a foreign layout's.

A table is a list of rules. The engine runs it either way, and refuses in one list every
array that no rule takes, that is missing, that has the wrong shape or that two rules
claim, so that no model is half converted.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from mmap import mmap

import numpy as np

Arrays = Sequence[np.ndarray]
Shapes = Mapping[str, tuple[int, ...]]
# Longer lists of faults are cut: where all is wrong, the first lines say why.
_SHOWN = 12
_CACHE_LINE = 64  # bytes


@dataclasses.dataclass(frozen=True)
class Rule:
    """Some of our parameters, the foreign arrays that hold them, and both ways.

    `there` makes theirs from ours and `back` ours from theirs, each from a list of
    arrays in the order of the names. `fold` says in words what the foreign layout adds
    up or leaves out; the empty string: the map is one to one, bit by bit.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    there: Callable[[Arrays], Arrays]
    back: Callable[[Arrays], Arrays]
    fold: str = ""


def to_ours(
    rules: Sequence[Rule],
    arrays: Mapping[str, np.ndarray],
    shapes: Shapes,
    *,
    source: str,
    take: bool = False,
) -> dict[str, np.ndarray]:
    """Our flat parameters from foreign arrays: contiguous, of their own memory.

    Args:
      rules: the layout's table.
      arrays: foreign name -> array.
      shapes: our name -> shape, of the model that the arrays are for.
      source: what the arrays come from, for messages.
      take: nobody else uses the arrays, so those that stay as they are become ours and
        are not copied.

    Raises:
      ValueError: lists all that is missing, left over, claimed twice or misshapen.
    """
    faults = _table_faults(rules, shapes)
    if not faults:
        faults = _differences(arrays, foreign_shapes(rules, shapes))
    if faults:
        raise ValueError(_refusal(f"{source} does not fit the model", faults))
    return _run(rules, arrays, forward=False, take=take)


def to_theirs(
    rules: Sequence[Rule], params: Mapping[str, np.ndarray], *, layout: str
) -> dict[str, np.ndarray]:
    """Foreign arrays from our flat parameters: contiguous, of their own memory.

    Args:
      rules: the layout's table.
      params: our name -> array.
      layout: its name, for messages.

    Raises:
      ValueError: lists our parameters that the layout has no place for, and those that
        it needs and that are not there.
    """
    shapes = {name: np.shape(array) for name, array in params.items()}
    faults = _table_faults(rules, shapes)
    if faults:
        raise ValueError(_refusal(f"layout {layout} can't hold this model", faults))
    return _run(rules, params, forward=True)


def foreign_shapes(rules: Sequence[Rule], shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """Foreign name -> shape, for our shapes; found by sending bytes of zeros there."""
    return {
        name: array.shape
        for rule in rules
        for name, array in zip(
            rule.theirs,
            rule.there([np.broadcast_to(np.int8(0), shapes[n]) for n in rule.ours]),
            strict=True,
        )
    }


def folds(rules: Sequence[Rule]) -> list[str]:
    """What the layout adds up or leaves out, in words, each once."""
    return list(dict.fromkeys(rule.fold for rule in rules if rule.fold))


def _run(
    rules: Sequence[Rule],
    arrays: Mapping[str, np.ndarray],
    *,
    forward: bool,
    take: bool = False,
) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for rule in rules:
        names, results = rule.ours, rule.theirs
        turn = rule.there
        if not forward:
            names, results, turn = rule.theirs, rule.ours, rule.back
        given = [np.asarray(arrays[name]) for name in names]
        for name, array in zip(results, turn(given), strict=True):
            found[name] = _owned(array, given, take)
    return found


def stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Matrices one below another, in C order and in memory of their own.

    They go in columns of a cache line: of transposed ones, which most are, that is
    several times as fast as NumPy's copy.
    """
    dtype = np.result_type(*parts)
    made = np.empty((sum(map(len, parts)), parts[0].shape[1]), dtype)
    step, row = max(1, _CACHE_LINE // dtype.itemsize), 0
    for part in parts:
        rows = made[row : row + len(part)]
        for start in range(0, made.shape[1], step):
            rows[:, start : start + step] = part[:, start : start + step]
        row += len(part)
    return made


def _owned(array: np.ndarray, given: Arrays, take: bool) -> np.ndarray:
    """The array in C order, in memory that no other dict shares."""
    if not any(array is one for one in given):
        if array.flags.c_contiguous and array.flags.owndata:
            return array
    elif take and array.flags.c_contiguous and _is_whole(array):
        return array
    if array.ndim == 2 and array.T.flags.c_contiguous:
        return stacked([array])
    return np.array(array, order="C", subok=False)


def _is_whole(array: np.ndarray) -> bool:
    """Whether it is no part of an array that holds more memory than it needs."""
    base = array.base
    # Pages of a file are no memory of ours.
    if base is None or isinstance(base, mmap):
        return True
    return getattr(base, "nbytes", 0) == array.nbytes


def _table_faults(rules: Sequence[Rule], shapes: Shapes) -> list[str]:
    """Where the table and our parameters don't cover one another exactly."""
    ours = Counter(name for rule in rules for name in rule.ours)
    theirs = Counter(name for rule in rules for name in rule.theirs)
    twice = [name for side in (ours, theirs) for name, n in side.items() if n > 1]
    return [
        *(f"{name}: matched twice" for name in twice),
        *(f"{name}: the layout has no place for it" for name in shapes.keys() - ours),
        *(f"{name}: the layout needs it" for name in ours.keys() - shapes.keys()),
    ]


def _differences(arrays: Mapping[str, np.ndarray], wanted: Shapes) -> list[str]:
    lines = []
    for name in dict.fromkeys([*wanted, *arrays]):
        if name not in arrays:
            lines.append(f"{name}: missing, must be {list(wanted[name])}")
            continue
        shape = list(np.shape(arrays[name]))
        if name not in wanted:
            lines.append(f"{name}: no place in the model, {shape}")
        elif tuple(shape) != tuple(wanted[name]):
            lines.append(f"{name}: {shape}, must be {list(wanted[name])}")
    return lines


def _refusal(what: str, faults: Sequence[str]) -> str:
    shown = "\n  ".join(faults[:_SHOWN])
    rest = len(faults) - _SHOWN
    more = f"\n  and {rest} more" if rest > 0 else ""
    return f"{what} ({len(faults)} faults):\n  {shown}{more}"
