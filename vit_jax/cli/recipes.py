"""Recipes by name or path, with their arguments and the command line on top."""

import ast
import difflib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

import vit_jax.configs
from vit_jax import config as configuration


def load_config(recipe: str, overrides: dict[str, str]) -> tuple[ConfigDict, list[str]]:
    """(config, faults of the overrides): a recipe with the command line on top.

    Args:
      recipe: path of a Python file with `get_config()`, or the bare name of a recipe
        in `vit_jax.configs`; then, where the recipe takes arguments, a colon and
        `name=value` pairs between commas, as in `vit_s16_i1k:epochs=300`.
      overrides: key -> text.

    Raises:
      FileNotFoundError: there is no such recipe.
      ValueError: the recipe fails, has no `get_config()`, takes no such argument, or
        sets a key that does not exist.
    """
    name, text = _split(recipe)
    path = _find(name)
    try:
        make = _module(name, path).get_config
        keywords = _keywords(make, text)
        config = make(**keywords)
    # A recipe is the user's own program and may fail in any way.
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"--config={recipe} can't be used ({type(error).__name__}"
            f"{_line_of(error, path)}): {_without_dump(error)}"
        ) from error
    if not isinstance(config, ConfigDict):
        raise ValueError(
            f"--config={recipe}: get_config() must return a changed "
            f"vit_jax.config.default_config(), not {type(config).__name__}."
        )
    missing = [key.name for key in configuration.KEYS if not _has(config, key.name)]
    if missing:
        raise ValueError(
            f"--config={recipe} lacks {', '.join(missing[:5])}; get_config() must "
            "start from vit_jax.config.default_config() and only change values."
        )
    faults = configuration.unknown_keys(config)
    return config, [*faults, *configuration.override(config, overrides)]


def _line_of(error: BaseException, path: Path | None) -> str:
    """ ", line N": where the user's file was when it failed."""
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if path is not None and frame.f_code.co_filename == str(path)
    ]
    return f", line {lines[-1]}" if lines else ""


def _without_dump(error: BaseException) -> str:
    """The error's text without the whole config, which ml_collections adds."""
    return re.sub(r' Other fields present: "\{.*\}"', "", str(error), flags=re.DOTALL)


def recipe_arguments(name: str) -> dict[str, Any]:
    """Arguments that a recipe of the package takes, with their defaults."""
    return _defaults(_module(name, None).get_config)


def recipe_names() -> list[str]:
    """Bare names of the recipes that come with the package, sorted."""
    found = pkgutil.iter_modules(vit_jax.configs.__path__)
    return sorted(module.name for module in found)


def _split(recipe: str) -> tuple[str, str]:
    """(name or path, text of the arguments)."""
    recipe = os.path.expanduser(recipe)
    if Path(recipe).is_file():
        return recipe, ""
    path, mark, text = recipe.partition(".py:")
    if mark:
        return f"{path}.py", text
    name, _, text = recipe.partition(":")
    return name, text


def _keywords(make: Callable[..., Any], text: str) -> dict[str, Any]:
    """The arguments that `text` spells, each of the type of its default.

    Raises:
      ValueError: the recipe has no such argument, or the value has another type.
    """
    defaults = _defaults(make)
    keywords = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = pair.partition("=")
        if name not in defaults or not equals:
            takes = ", ".join(f"{key}={value}" for key, value in defaults.items())
            raise ValueError(
                f"{pair!r} is no argument of it; it takes "
                f"{takes or 'none'}{', as NAME=VALUE' if takes else ''}."
            )
        keywords[name] = _converted(name, value, type(defaults[name]))
    return keywords


def _converted(name: str, text: str, wanted: type) -> Any:
    if wanted is str:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        kinds = {int: "a whole number", float: "a number", bool: "True or False"}
        raise ValueError(f"{name}={text} must be {kinds[wanted]}.")
    return value


def _defaults(make: Callable[..., Any]) -> dict[str, Any]:
    """Arguments with their defaults, which must be text, numbers or bools.

    Raises:
      ValueError: an argument has no such default.
    """
    parameters = inspect.signature(make).parameters.values()
    for parameter in parameters:
        if type(parameter.default) not in (str, int, float, bool):
            raise ValueError(
                f"get_config()'s argument {parameter.name} must have a default that "
                "is text, a number or a bool."
            )
    return {parameter.name: parameter.default for parameter in parameters}


def _find(recipe: str) -> Path | None:
    """The file that `recipe` names, None for a recipe of the package."""
    if recipe in recipe_names():
        return None
    path = Path(recipe)
    if path.suffix != ".py" or not path.is_file():
        near = difflib.get_close_matches(recipe, recipe_names(), 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise FileNotFoundError(
            f"--config={recipe} is neither a Python file nor a recipe; the recipes "
            f"are {', '.join(recipe_names())}.{hint}"
        )
    return path


def _module(recipe: str, path: Path | None) -> ModuleType:
    if path is None:
        return importlib.import_module(f"vit_jax.configs.{recipe}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _has(config: ConfigDict, name: str) -> bool:
    *groups, leaf = name.split(".")
    for group in groups:
        config = getattr(config, group, None)
    return hasattr(config, leaf)
