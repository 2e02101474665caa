"""Recipes by name or path, with the command line on top."""

import difflib
import importlib
import importlib.util
import pkgutil
from pathlib import Path
from types import ModuleType

from ml_collections import ConfigDict

import vit_jax.configs
from vit_jax import config as configuration


def load_config(recipe: str, overrides: dict[str, str]) -> tuple[ConfigDict, list[str]]:
    """(config, faults of the overrides): a recipe with the command line on top.

    Args:
      recipe: path of a Python file with `get_config()`, or the bare name of a recipe
        in `vit_jax.configs`.
      overrides: key -> text.

    Raises:
      FileNotFoundError: there is no such recipe.
      ValueError: the recipe fails, has no `get_config()`, or sets a key that does not
        exist.
    """
    path = _find(recipe)
    try:
        config = _module(recipe, path).get_config()
    # A recipe is the user's own program and may fail in any way.
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"--config={recipe} can't be used ({type(error).__name__}): {error}"
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
    return config, configuration.override(config, overrides)


def recipe_names() -> list[str]:
    """Bare names of the recipes that come with the package, sorted."""
    found = pkgutil.iter_modules(vit_jax.configs.__path__)
    return sorted(module.name for module in found)


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
