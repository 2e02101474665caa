"""Arguments of recipes: after a colon, checked against get_config()."""

import pytest

from vit_jax.cli.recipes import load_config, recipe_arguments

SOURCE = """
from vit_jax.config import default_config

def get_config(epochs: int = 3, rate: float = 0.1, level: str = "a", big: bool = False):
    config = default_config()
    config.schedule.total_epochs = float(epochs)
    config.schedule.base_learning_rate = rate
    config.data.source = level + str(big)
    return config
"""


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    return str(file)


def test_arguments_reach_the_recipe_with_their_types(recipe):
    config, faults = load_config(
        f"{recipe}:epochs=9,rate=2,level=B/16,big=True", {"seed": "4"}
    )
    assert faults == []
    assert config.schedule.total_epochs == 9.0
    assert config.schedule.base_learning_rate == 2.0
    assert config.data.source == "B/16True"
    assert config.seed == 4


@pytest.mark.parametrize("ending", ["", ":"])
def test_without_arguments_the_defaults_hold(recipe, ending):
    config, _ = load_config(recipe + ending, {})
    assert config.schedule.total_epochs == 3.0


def test_recipes_of_the_package_take_arguments_too():
    config, _ = load_config("vit_s16_i1k:epochs=300", {})
    assert config.schedule.total_epochs == 300.0
    assert recipe_arguments("vit_s16_i1k") == {"epochs": 90}
    assert recipe_arguments("digits") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("epoch=9", r"'epoch=9' is no argument of it; it takes epochs=3, rate=0\.1"),
        ("epochs", "'epochs' is no argument of it"),
        ("epochs=1.5", "epochs=1.5 must be a whole number"),
        ("epochs=many", "epochs=many must be a whole number"),
        ("rate=fast", "rate=fast must be a number"),
        ("big=1", "big=1 must be True or False"),
    ],
)
def test_an_argument_that_the_recipe_can_not_take_is_refused(
    recipe, arguments, message
):
    with pytest.raises(ValueError, match=message):
        load_config(f"{recipe}:{arguments}", {})


def test_a_recipe_without_arguments_says_so():
    with pytest.raises(ValueError, match="'a=1' is no argument of it; it takes none"):
        load_config("digits:a=1", {})


def test_an_argument_without_a_plain_default_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def get_config(epochs): return None")
    with pytest.raises(ValueError, match="argument epochs must have a default"):
        load_config(str(file), {})


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("vit_pretrain:data=jft", "data=jft must be one of imagenet, imagenet21k"),
        ("vit_pretrain:variant=X/16", "variant=X/16 must be of size Ti, S, B"),
        ("vit_finetune:data=mnist", "data=mnist must be one of imagenet, cifar10"),
        ("augreg:data=jft", "data=jft must be one of imagenet, imagenet21k"),
        ("deit:variant=L/16", "variant=L/16 must be one of Ti/16, S/16, B/16"),
        ("small_data:size=huge", "size=huge must be one of small, tiny"),
    ],
)
def test_what_a_paper_does_not_have_is_refused(recipe, message):
    with pytest.raises(ValueError, match=message):
        load_config(recipe, {})


def test_a_recipe_that_fails_is_named_with_its_line(tmp_path):
    recipe = tmp_path / "r.py"
    head = "from vit_jax.config import default_config\n\n\ndef get_config():\n"
    recipe.write_text(
        head + "    config = default_config()\n    config.model.widht = 3\n"
    )
    with pytest.raises(ValueError, match=r"\(AttributeError, line 6\)") as caught:
        load_config(str(recipe), {})
    assert len(str(caught.value)) < 500


def test_a_key_that_a_recipe_adds_is_a_fault(tmp_path):
    recipe = tmp_path / "r.py"
    head = "from vit_jax.config import default_config\n\n\ndef get_config():\n"
    body = "    c = default_config()\n    c.unlock()\n    c.foo = 3\n    return c\n"
    recipe.write_text(head + body)
    _, faults = load_config(str(recipe), {})
    assert faults == ["foo is not a configuration key; `vit_jax config` lists them."]
