"""Values that name parameters: patterns, and rules that give each pattern a number."""

import ast
import dataclasses
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from vit_jax.config import listed


def parse_patterns(text: str) -> tuple[str, ...]:
    """The patterns that `text` spells: words between blanks, or a Python tuple."""
    value = _literal(text)
    if isinstance(value, tuple | list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    return tuple(text.split())


def parse_rules(text: str) -> tuple[tuple[str, float], ...]:
    """The rules that `text` spells: PATTERN=NUMBER between blanks, or a Python tuple.

    Raises:
      ValueError: an entry is no pattern with a number.
    """
    value = _literal(text)
    if isinstance(value, tuple | list):
        return tuple((str(pattern), float(number)) for pattern, number in value)
    pairs = [entry.rpartition("=") for entry in text.split()]
    return tuple((pattern, float(number)) for pattern, _, number in pairs)


def is_pattern(value: Any) -> bool:
    """Whether `value` is a regular expression with at least one character."""
    if not isinstance(value, str) or not value:
        return False
    try:
        re.compile(value)
    except re.error:
        return False
    return True


def is_rule(value: Any) -> bool:
    """Whether `value` is a pair of a pattern and a finite number of 0 or more."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    pattern, number = value
    numeric = isinstance(number, int | float) and not isinstance(number, bool)
    return is_pattern(pattern) and numeric and 0 <= number < float("inf")


def _literal(text: str) -> Any:
    """The Python value that `text` spells, or None; "(a|b)/.*" spells none."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return None


@dataclasses.dataclass(frozen=True)
class Entries:
    """A kind of entries: text to a tuple, what one must hold, and that in words."""

    parse: Callable[[str], tuple]
    holds: Callable[[Any], bool]
    requirement: str


ENTRIES: Mapping[str, Entries] = MappingProxyType(
    {
        "pattern": Entries(
            parse_patterns,
            is_pattern,
            "regular expressions of whole parameter names between blanks, as in "
            "'stem/.* position/.*'",
        ),
        "rule": Entries(
            parse_rules,
            is_rule,
            "rules PATTERN=NUMBER between blanks, each a regular expression of whole "
            "parameter names and a number, 0 or more, as in 'head/.*=10 stem/.*=0.1'",
        ),
        "stage": Entries(
            listed.parse_stages, listed.is_stage, listed.STAGE_REQUIREMENT
        ),
        "count": Entries(
            listed.parse_counts, listed.is_count, listed.COUNT_REQUIREMENT
        ),
        "set": Entries(listed.parse_sets, listed.is_set, listed.SET_REQUIREMENT),
    }
)
