"""Configs made, changed, written and read."""

import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from vit_jax.config.key import parse, requirement, shown
from vit_jax.config.table import BY_NAME, KEYS, unknown_key


def default_config() -> ConfigDict:
    """A locked ConfigDict with every key at its default."""
    tree: dict[str, Any] = {}
    for key in KEYS:
        *groups, leaf = key.name.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[leaf] = (
            config_dict.placeholder(key.type) if key.starts_unset else key.default
        )
    return ConfigDict(tree).lock()


def override(config: ConfigDict, assignments: Mapping[str, str]) -> list[str]:
    """Sets keys from text, as the command line gives them; returns the faults.

    Args:
      config: changed in place.
      assignments: key -> text, such as `{"model.dropout": "0.1"}`.

    Returns:
      One sentence for each assignment that could not be made; empty when all were.
    """
    faults = []
    for name, text in assignments.items():
        if name not in BY_NAME:
            faults.append(unknown_key(name))
            continue
        try:
            value = parse(BY_NAME[name], text)
        except (ValueError, SyntaxError, TypeError, OverflowError):
            faults.append(f"{name}={text} must be {requirement(BY_NAME[name])}.")
            continue
        config.update_from_flattened_dict({name: value})
    return faults


def unknown_keys(config: ConfigDict) -> list[str]:
    """A sentence about each key that a recipe added, which it can once unlocked."""
    names = _flatten_dict(config.to_dict())
    return [unknown_key(name) for name in names if name not in BY_NAME]


def to_json(config: ConfigDict) -> str:
    """The config as JSON text, whose values `from_values` takes back."""
    return json.dumps(config.to_dict(), indent=2)


def from_values(values: Mapping[str, Any]) -> ConfigDict:
    """The config with these values, groups nested; keys that lack get their defaults.

    Raises:
      ValueError: it is no mapping, holds a key that does not exist, or a value of
        another type.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"a config is a mapping of keys, not {type(values).__name__}.")
    config = default_config()
    flat = _flatten_dict(values)
    unknown = [unknown_key(name) for name in flat if name not in BY_NAME]
    if unknown:
        raise ValueError("\n".join(unknown))
    for name, value in flat.items():
        value = _tuples(value)
        try:
            config.update_from_flattened_dict({name: value})
        except TypeError as error:
            must = requirement(BY_NAME[name])
            raise ValueError(f"{name}={shown(value)} must be {must}.") from error
    return config


def flatten(config: ConfigDict) -> dict[str, Any]:
    """Dotted key -> value, in the order of `KEYS`; unset keys are None."""
    values = _flatten_dict(config.to_dict())
    return {key.name: values[key.name] for key in KEYS}


def image_shape(config: ConfigDict) -> tuple[int, int]:
    """(rows, columns) in pixels from `model.image_size`, one number or two."""
    size = tuple(config.model.image_size)
    return (size[0], size[0]) if len(size) == 1 else size


def describe() -> str:
    """Every key with default and meaning, for people."""
    lines = []
    for key in KEYS:
        default = "unset" if key.starts_unset else shown(key.default)
        choices = f" ({' | '.join(map(str, key.choices))})" if key.choices else ""
        lines.append(f"  {key.name} = {default}{choices}\n      {key.meaning}")
    return "\n".join(lines)


def _tuples(value: Any) -> Any:
    """Lists, as JSON has them, become tuples at every depth."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _flatten_dict(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flatten_dict(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
