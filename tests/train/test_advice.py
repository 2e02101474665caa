"""What a run says of few images before it starts."""

import types

import pytest

from tests.data.pictures import write_folder
from tests.train.digits import tiny_config
from vit_jax.train import advice
from vit_jax.train.assemble import assemble
from vit_jax.train.inputs import open_inputs
from vit_jax.train.loop import train_and_evaluate


@pytest.mark.slow
def test_few_images_for_a_plain_vit_are_noted_once(tmp_path, capsys):
    train_and_evaluate(tiny_config(), tmp_path)
    said = capsys.readouterr().err
    assert said.count("note: 1,437 images are few for a ViT from scratch") == 1
    for key in ("init.weights", "model.stem=conv", "augment.preset=medium1"):
        assert key in said
    train_and_evaluate(tiny_config(schedule__total_steps=7), tmp_path)
    assert "note:" not in capsys.readouterr().err


def test_classes_without_an_image_are_named(tmp_path):
    write_folder(tmp_path / "train", {"a": 2, "b": 0, "c": 1, "d": 0})
    config = tiny_config(data__eval__split="", data__source=str(tmp_path))
    parts = types.SimpleNamespace(
        config=config, inputs=open_inputs(config, evaluation=False)
    )
    said = advice.empty_classes(parts)
    assert said.startswith("note: 2 of 4 classes have no training image")
    assert said.endswith(": b, d")
    write_folder(tmp_path / "train", {"b": 1, "d": 1})
    parts.inputs = open_inputs(config, evaluation=False)
    assert advice.empty_classes(parts) == ""


@pytest.mark.parametrize(("channels", "noted"), [(1, True), (3, False)])
def test_colours_that_a_grey_model_does_not_see_are_noted(tmp_path, channels, noted):
    write_folder(tmp_path / "train", {"a": 2, "b": 2})
    config = tiny_config(model__channels=channels, data__eval__split="")
    config.data.source = str(tmp_path)
    said = advice.grey_model(assemble(config))
    assert bool(said) == noted
    if noted:
        assert "000.png have colours and become grey, since model.channels=1" in said


def test_grey_images_of_a_grey_model_are_no_matter():
    assert advice.grey_model(assemble(tiny_config())) == ""


@pytest.mark.parametrize(
    "change", [{"model__stem": "conv"}, {"augment__preset": "medium1"}]
)
def test_who_has_followed_the_advice_does_not_get_it(change):
    assert advice.learns_little(tiny_config(), 99_999)
    assert not advice.learns_little(tiny_config(), 100_000)
    assert not advice.learns_little(tiny_config(**change), 10)
