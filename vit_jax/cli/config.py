"""`vit_jax config`: the recipes and every key, or a recipe's resolved values."""

import argparse

HELP = "list recipes and configuration keys, or show a recipe's values"
EXAMPLES = """\
examples:
  vit_jax config
  vit_jax config digits
  vit_jax config digits --config.seed=1"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument(
        "recipe", nargs="?", help="name or path of a recipe whose values to show"
    )


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Prints; returns the exit status."""
    from vit_jax import config as configuration
    from vit_jax.cli.recipes import load_config, recipe_names

    if arguments.recipe is None:
        if overrides:
            raise ValueError("--config.KEY=VALUE needs a recipe: vit_jax config RECIPE")
        print("recipes (vit_jax train --config=NAME):")
        print("".join(f"  {name}\n" for name in recipe_names()))
        print("keys (--config.KEY=VALUE):")
        print(configuration.describe())
        return 0
    config, faults = load_config(arguments.recipe, overrides)
    configuration.refuse(faults)
    defaults = configuration.flatten(configuration.default_config())
    print("(*: differs from the default)")
    for key, value in configuration.flatten(config).items():
        mark = " " if value == defaults[key] else "*"
        shown = "unset" if value is None else configuration.shown(value)
        print(f"{mark} {key} = {shown}")
    return 0
