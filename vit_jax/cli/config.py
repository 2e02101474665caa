"""`vit_jax config`: the recipes and every key, or a recipe's resolved values."""

import argparse
import textwrap

HELP = "list recipes and configuration keys, or show a recipe's values"
EXAMPLES = """\
examples:
  vit_jax config
  vit_jax config digits
  vit_jax config digits --config.seed=1
  vit_jax config vit_s16_i1k:epochs=300"""

_INDENT = {"initial_indent": "  ", "subsequent_indent": "  "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags of the command."""
    parser.add_argument(
        "recipe",
        nargs="?",
        help="name or path of a recipe whose values to show, with its arguments after "
        "a colon",
    )


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Prints; returns the exit status."""
    from vit_jax import config as configuration
    from vit_jax.cli.recipes import load_config, recipe_arguments, recipe_names
    from vit_jax.models.variants import list_models
    from vit_jax.train.augment import with_preset

    if arguments.recipe is None:
        if overrides:
            raise ValueError("--config.KEY=VALUE needs a recipe: vit_jax config RECIPE")
        print("recipes (vit_jax train --config=NAME or NAME:ARGUMENT=VALUE,…):")
        for name in recipe_names():
            pairs = recipe_arguments(name).items()
            arguments = ",".join(f"{key}={value}" for key, value in pairs)
            print(f"  {name}{':' if arguments else ''}{arguments}")
        print("\nmodels (--config.model.variant=NAME):")
        print(textwrap.fill(" ".join(list_models()), 78, **_INDENT))
        print()
        print("keys (--config.KEY=VALUE):")
        print(configuration.describe())
        return 0
    config, faults = load_config(arguments.recipe, overrides)
    configuration.refuse(faults)
    defaults = configuration.flatten(with_preset(configuration.default_config()))
    own = _variants_own(config.model.variant)
    print("(*: differs from the default)")
    for key, value in configuration.flatten(with_preset(config)).items():
        mark = " " if value == defaults[key] else "*"
        shown = "unset" if value is None else configuration.shown(value)
        print(f"{mark} {key} = {shown}{own.get(key, '') if value is None else ''}")
    return 0


def _variants_own(variant: str) -> dict[str, str]:
    """Key of the model -> what the variant has where the key is unset."""
    from vit_jax.config import shown
    from vit_jax.models.variants import VARIANTS

    spec = VARIANTS.get(variant)
    fields = vars(spec) if spec else {}
    return {
        f"model.{name}": f" (the variant's own: {shown(value)})"
        for name, value in fields.items()
        if name != "num_classes"  # it follows from the data
    }
