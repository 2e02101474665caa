"""Values that are lists: the stages of a run, and sets to evaluate."""

import ast
import re
from typing import Any

_STAGE = re.compile(r"(\d+)(?:x(\d+))?:([\d.e+-]+)(?::(\d+))?")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")

STAGE_REQUIREMENT = (
    "stages SIZE:SHARE or SIZE:SHARE:BATCH between blanks, as in '128:0.6:1024 "
    "224:0.4:512': pixels (or ROWSxCOLUMNS), share of the steps, batch (0 or left out: "
    "data.train.batch_size)"
)
SET_REQUIREMENT = (
    "sets NAME=SOURCE:SPLIT between blanks, as in 'v2=imagenet_v2:test "
    "small=digits:train[:10%]'"
)


def parse_stages(text: str) -> tuple[tuple[Any, float, int], ...]:
    """((size, share, batch), …) of SIZE:SHARE:BATCH between blanks, or of a tuple.

    Raises:
      ValueError: an entry is no stage.
    """
    value = _literal(text)
    if isinstance(value, tuple | list):
        return tuple(_stage(*entry) for entry in value)
    stages = []
    for word in text.split():
        match = _STAGE.fullmatch(word)
        if not match:
            raise ValueError(word)
        rows, columns, share, batch = match.groups()
        size = (int(rows), int(columns)) if columns else int(rows)
        stages.append(_stage(size, float(share), int(batch or 0)))
    return tuple(stages)


def is_stage(value: Any) -> bool:
    """Whether `value` is (pixels or (rows, columns), share of the steps, batch)."""
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    size, share, batch = value
    sizes = size if isinstance(size, tuple) else (size,)
    return (
        len(sizes) in (1, 2)
        and all(type(pixels) is int and pixels >= 1 for pixels in sizes)
        and type(share) in (int, float)
        and 0 < share <= 1
        and type(batch) is int
        and batch >= 0
    )


def parse_sets(text: str) -> tuple[tuple[str, str, str], ...]:
    """((name, source, split), …) of NAME=SOURCE:SPLIT between blanks, or of a tuple.

    Raises:
      ValueError: an entry is no set.
    """
    value = _literal(text)
    if isinstance(value, tuple | list):
        return tuple(
            (str(name), str(source), str(split)) for name, source, split in value
        )
    sets = []
    for word in text.split():
        name, equals, address = word.partition("=")
        # A split may be a part, `train[:98%]`, whose colon is none of ours.
        split = re.search(r":([^:\[\]/]+(?:\[[^\]]*\])?)$", address)
        if not equals or not split:
            raise ValueError(word)
        sets.append((name, address[: split.start()], split[1]))
    return tuple(sets)


def is_set(value: Any) -> bool:
    """Whether `value` is (name, source, split), the name fit for a row of figures."""
    return (
        isinstance(value, tuple)
        and len(value) == 3
        and all(isinstance(word, str) and word for word in value)
        and bool(_NAME.fullmatch(value[0]))
    )


def _stage(size: Any, share: float, batch: int = 0) -> tuple[Any, float, int]:
    return (tuple(size) if isinstance(size, list) else size, float(share), batch)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return None


COUNT_REQUIREMENT = "whole numbers, 1 or more, between commas, as in 3,4,9"


def parse_counts(text: str) -> tuple[int, ...]:
    """(3, 4, 9) of "3,4,9"; raises ValueError where it is none."""
    return tuple(
        int(count) for count in text.strip("()[] ").split(",") if count.strip()
    )


def is_count(value: Any) -> bool:
    """Whether `value` is a whole number, 1 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
