"""The resolved values of each recipe, as text that a review can read.

After a wanted change: VIT_JAX_UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/golden
"""

import os
from pathlib import Path

import pytest

from vit_jax import config as configuration
from vit_jax.__main__ import main
from vit_jax.cli.recipes import load_config, recipe_names
from vit_jax.train.augment import with_preset

FOLDER = Path(__file__).parent
UPDATE = bool(os.environ.get("VIT_JAX_UPDATE_GOLDEN"))


@pytest.mark.parametrize("recipe", recipe_names())
def test_resolved_config_is_the_golden_text(recipe, capsys):
    assert main(["config", recipe]) == 0
    shown = capsys.readouterr().out
    file = FOLDER / f"{recipe}.txt"
    if UPDATE:
        file.write_text(shown)
    assert shown == file.read_text(), "see the docstring of this file"


# What an argument changes, beside the defaults above.
ARGUMENTS = [
    "augreg:data=imagenet21k,level=light1,variant=S/16,weight_decay=0.03,dropout=0.1",
    "deit:variant=B/16",
    "small_data:size=tiny",
    "vit_finetune:data=imagenet,variant=L/16",
    "vit_finetune:data=pets",
    "vit_pretrain:data=imagenet21k,variant=L/16",
    "vit_s16_i1k:epochs=300",
]


def changed_by(recipe):
    default, flat = (
        configuration.flatten(with_preset(load_config(name, {})[0]))
        for name in (recipe.partition(":")[0], recipe)
    )
    for key, value in flat.items():
        if value != default[key]:
            yield f"  {key} = {value} (not {default[key]})\n"


def test_what_arguments_change_is_the_golden_text():
    text = "".join(f"{name}\n{''.join(changed_by(name))}" for name in ARGUMENTS)
    file = FOLDER / "arguments" / "recipes.txt"
    if UPDATE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "see the docstring of this file"


def test_every_golden_text_belongs_to_a_recipe():
    assert sorted(file.stem for file in FOLDER.glob("*.txt")) == recipe_names()


@pytest.mark.parametrize("recipe", recipe_names())
def test_docstring_says_what_a_user_can_expect(recipe):
    source = (FOLDER.parent.parent / "configs" / f"{recipe}.py").read_text()
    for word in ("Paper:", "Command:", "Expected:", "Cost:"):
        assert word in source, word
    assert load_config(recipe, {})[1] == []
