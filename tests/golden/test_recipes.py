"""The resolved values of each recipe, as text that a review can read.

After a wanted change: VIT_JAX_UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/golden
"""

import os
from pathlib import Path

import pytest

from vit_jax.__main__ import main
from vit_jax.cli.recipes import load_config, recipe_names

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


def test_every_golden_text_belongs_to_a_recipe():
    assert sorted(file.stem for file in FOLDER.glob("*.txt")) == recipe_names()


@pytest.mark.parametrize("recipe", recipe_names())
def test_docstring_says_what_a_user_can_expect(recipe):
    source = (FOLDER.parent.parent / "configs" / f"{recipe}.py").read_text()
    for word in ("Paper:", "Command:", "Expected:", "Cost:"):
        assert word in source, word
    assert load_config(recipe, {})[1] == []
