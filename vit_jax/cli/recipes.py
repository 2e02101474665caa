"""Recipes by name or path, with the command line on top."""

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
    try:
        module = _recipe_module(recipe)
        config = module.get_config()
    except FileNotFoundError:
        raise
    # A recipe is the user's own program and may fail in any way.
    except Exception as error:
        raise ValueError(
            f"--config={recipe} can't be used ({type(error).__name__}): {error}"
        ) from error
    if not isinstance(config, ConfigDict):
        raise ValueError(
            f"--config={recipe}: get_config() must return a changed "
            f"vit_jax.config.default_config(), not {type(config).__name__}."
        )
    return config, configuration.override(config, overrides)


def recipe_names() -> list[str]:
    """Bare names of the recipes that come with the package, sorted."""
    found = pkgutil.iter_modules(vit_jax.configs.__path__)
    return sorted(module.name for module in found)


def _recipe_module(recipe: str) -> ModuleType:
    if recipe in recipe_names():
        return importlib.import_module(f"vit_jax.configs.{recipe}")
    path = Path(recipe)
    if path.suffix != ".py" or not path.is_file():
        raise FileNotFoundError(
            f"--config={recipe} is neither a Python file nor a recipe; the recipes "
            f"are {', '.join(recipe_names())}."
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
