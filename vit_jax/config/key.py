"""One configuration key: what a value of it must be, and how text spells it."""

import ast
import dataclasses
import math
from typing import Any

from vit_jax.config.patterns import ENTRIES

# Steps, sizes and counts are 32-bit numbers on the devices.
_LARGEST_INT = 2**31 - 1
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


@dataclasses.dataclass(frozen=True)
class Key:
    """One configuration key.

    `default` is a value, or a type for a key that starts unset (a tuple is then one of
    floats). `minimum` and `maximum` bound numbers (each entry, for tuples); `choices`
    lists all that a value may be.
    A tuple that may be empty says what its entries are: "pattern" for regular
    expressions of whole parameter names, "rule" for pairs of one and a number, "stage"
    for stages of a run, "count" for whole numbers, "set" for evaluation sets.
    """

    name: str
    default: Any
    meaning: str
    choices: tuple[str, ...] | tuple[int, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    entries: str = ""

    @property
    def type(self) -> type:
        """The type that a value of this key has."""
        return self.default if isinstance(self.default, type) else type(self.default)

    @property
    def starts_unset(self) -> bool:
        """Whether the key has no value until a recipe or the command line gives one."""
        return isinstance(self.default, type)


def parse(key: Key, text: str) -> Any:
    """The value that `text` spells for `key`; raises if it spells none."""
    if key.starts_unset and text in ("", "None", "unset"):
        return None
    if key.entries:
        return ENTRIES[key.entries].parse("" if text == "unset" else text)
    if key.type is str:
        return text
    if key.type is bool:
        if text.lower() not in _BOOLEANS:
            raise ValueError(text)
        return _BOOLEANS[text.lower()]
    value = ast.literal_eval(text.strip())
    if key.type is tuple:
        value = tuple(value) if isinstance(value, tuple | list) else (value,)
        wanted = float if key.starts_unset else type(key.default[0])
        return tuple(_number(wanted, entry) for entry in value)
    return _number(key.type, value)


def holds(key: Key, value: Any) -> bool:
    """Whether `value`, of the key's type, lies in its range or among its choices."""
    if key.choices:
        return value in key.choices
    if key.entries:
        return all(map(ENTRIES[key.entries].holds, value))
    if isinstance(value, bool | str):
        return True
    entries: tuple[float, ...] = value if isinstance(value, tuple) else (value,)
    low = -float("inf") if key.minimum is None else key.minimum
    high = float("inf") if key.maximum is None else key.maximum
    return bool(entries) and all(
        isinstance(entry, int | float)
        and math.isfinite(entry)
        and low <= entry <= high
        and not (isinstance(entry, int) and entry > _LARGEST_INT)
        for entry in entries
    )


def requirement(key: Key) -> str:
    """What a value of `key` must be, in words."""
    if key.choices:
        return "one of " + ", ".join(map(str, key.choices))
    if key.entries:
        return ENTRIES[key.entries].requirement
    kind = {int: "a whole number", float: "a number", bool: "true or false"}
    example = (0.5, 1.0) if key.starts_unset else key.default
    kind |= {str: "text", tuple: f"one or more numbers such as {shown(example)}"}
    words = kind[key.type]
    if key.minimum is not None and key.maximum is not None:
        return f"{words} from {_plain(key.minimum)} to {_plain(key.maximum)}"
    if key.minimum is not None:
        return f"{words}, {_plain(key.minimum)} or more"
    return words


def shown(value: Any) -> str:
    """A value as the command line would spell it."""
    return value if isinstance(value, str) else repr(value).replace(" ", "")


def _plain(number: float) -> str:
    """A bound in words' text: whole numbers with all their digits."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _number(wanted: type, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    if wanted is int and value != int(value):
        raise ValueError(value)
    return wanted(value)
