"""Trees of named parameters: names such as `encoder/block_0/mlp/out/kernel`.

A tree is a nested mapping from strings to leaves (arrays, shapes, specs). Results are
plain dicts, whatever mapping came in.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Tree = Mapping[str, Any]


def flatten(tree: Tree) -> dict[str, Any]:
    """'/'-joined name -> leaf, in the tree's own order; empty sub-trees vanish.

    Raises:
      ValueError: a key is no string or holds '/', so that names would be ambiguous.
    """
    flat = {}
    for key, value in tree.items():
        if not isinstance(key, str) or "/" in key:
            raise ValueError(f"key {key!r} must be a string without '/'.")
        if isinstance(value, Mapping):
            flat.update(
                {f"{key}/{rest}": leaf for rest, leaf in flatten(value).items()}
            )
        else:
            flat[key] = value
    return flat


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The nested dict whose `flatten` gives `flat`.

    Raises:
      ValueError: one name is a leaf and a folder of others at once.
    """
    tree: dict[str, Any] = {}
    for name, leaf in flat.items():
        *folders, last = name.split("/")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
            if not isinstance(node, dict):
                raise ValueError(f"{name!r} lies below {folder!r}, which is a leaf.")
        if last in node:
            raise ValueError(f"{name!r} is a leaf and a folder of other names.")
        node[last] = leaf
    return tree


def map_named(function: Callable[[str, Any], Any], tree: Tree) -> dict[str, Any]:
    """The tree with each leaf replaced by `function(name, leaf)`."""
    return unflatten(
        {name: function(name, leaf) for name, leaf in flatten(tree).items()}
    )


def match(
    tree: Tree, rules: Sequence[tuple[str, Any]], default: Any = None
) -> dict[str, Any]:
    """The tree with each leaf replaced by the value of the first rule that matches.

    Args:
      tree: named leaves.
      rules: (pattern, value); a pattern is a regular expression that must match the
        whole name. The first match wins.
      default: the value of leaves that no rule matches.

    Raises:
      ValueError: a pattern matches no name of the tree, so that a misspelt rule can't
        pass unseen. A pattern whose names earlier rules all took is no error.
    """
    names = list(flatten(tree))
    for pattern, _ in rules:
        if not any(re.fullmatch(pattern, name) for name in names):
            raise ValueError(
                f"pattern {pattern!r} matches none of the {len(names)} names "
                f"({', '.join(names[:3])}, …); it must match a whole name."
            )

    def value_of(name: str, _: Any) -> Any:
        for pattern, value in rules:
            if re.fullmatch(pattern, name):
                return value
        return default

    return map_named(value_of, tree)


def mask(tree: Tree, patterns: Sequence[str]) -> dict[str, Any]:
    """The tree with True where any pattern matches the whole name, else False.

    Raises:
      ValueError: a pattern matches no name of the tree.
    """
    return match(tree, [(pattern, True) for pattern in patterns], default=False)


def count(tree: Tree, patterns: Sequence[str] = (".*",)) -> int:
    """How many numbers the leaves whose whole names match any pattern hold together."""
    return sum(
        math.prod(leaf.shape)
        for name, leaf in flatten(tree).items()
        if any(re.fullmatch(pattern, name) for pattern in patterns)
    )


def path_name(path: Sequence[Any]) -> str:
    """'/'-joined name of a JAX key path: dict keys, field names and positions alike."""
    return "/".join(
        str(getattr(entry, attribute))
        for entry in path
        for attribute in ("key", "name", "idx")
        if hasattr(entry, attribute)
    )
