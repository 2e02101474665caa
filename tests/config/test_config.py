"""Keys, overrides and faults of the config."""

import dataclasses
import json

import pytest

from vit_jax import config as configuration
from vit_jax.models.spec import VitSpec


def valid_config():
    config = configuration.default_config()
    config.data.source = "digits"
    config.schedule.total_steps = 10
    return config


def test_every_key_has_one_entry_and_a_meaning():
    names = [key.name for key in configuration.KEYS]
    assert len(names) == len(set(names))
    assert all(key.meaning for key in configuration.KEYS)


def test_every_default_is_within_its_own_range():
    assert configuration.check(valid_config()) == []


def test_flatten_lists_every_key_in_order():
    flat = configuration.flatten(configuration.default_config())
    assert list(flat) == [key.name for key in configuration.KEYS]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("schedule.base_learning_rate", "3e-4", 3e-4),
        ("schedule.base_learning_rate", "1", 1.0),
        ("model.image_size", "384", (384,)),
        ("model.image_size", "(224,320)", (224, 320)),
        ("augment.crop_area", "(0.2,1)", (0.2, 1.0)),
        ("log.progress", "False", False),
        ("log.progress", "true", True),
        ("schedule.total_epochs", "3", 3.0),
        ("model.num_classes", "10", 10),
        ("model.num_classes", "unset", None),
        ("model.variant", "S/16", "S/16"),
    ],
)
def test_override_parses_by_the_type_of_the_key(key, text, value):
    config = configuration.default_config()
    assert configuration.override(config, {key: text}) == []
    found = configuration.flatten(config)[key]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("data.train.batch_size", "many"),
        ("data.train.batch_size", "1.5"),
        ("data.train.batch_size", "True"),
        ("log.progress", "maybe"),
        ("model.image_size", "(224,'a')"),
        ("schedule.base_learning_rate", "__import__('os')"),
        ("schedule.base_learning_rate", ""),
    ],
)
def test_override_refuses_a_value_of_another_type(key, text):
    faults = configuration.override(configuration.default_config(), {key: text})
    assert len(faults) == 1
    assert faults[0].startswith(f"{key}={text} must be ")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("model.varient", "model.variant"),
        ("learning_rate", "schedule.base_learning_rate"),
        ("optimizer.base_learning_rate", "schedule.base_learning_rate"),
        ("data.batch_size", "data.train.batch_size"),
        ("model.dropuot", "model.dropout"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_one_that_was_meant(written, meant):
    faults = configuration.override(configuration.default_config(), {written: "1"})
    assert faults == [f"{written} is not a configuration key; did you mean {meant}?"]


def test_an_unknown_key_without_a_near_one_points_to_the_list():
    (fault,) = configuration.override(configuration.default_config(), {"zzz": "1"})
    assert "`vit_jax config` lists them" in fault


def test_an_unknown_key_in_python_raises():
    config = configuration.default_config()
    with pytest.raises(AttributeError, match="Did you mean"):
        config.model.varient = "S/16"


def test_check_reports_all_faults_together():
    config = valid_config()
    config.model.dropout = 2.0
    config.model.pool = "max"
    config.data.train.batch_size = 0
    config.schedule.total_epochs = 3.0
    faults = configuration.check(config)
    assert [fault.split("=")[0] for fault in faults] == [
        "model.pool",
        "model.dropout",
        "data.train.batch_size",
        "schedule.total_steps",
    ]
    assert "one of cls, gap, cls_gap, map, distilled" in faults[0]
    assert "from 0 to 0.999" in faults[1]
    assert "1 or more" in faults[2]


@pytest.mark.parametrize("unit", ["steps", "epochs", "examples"])
def test_a_run_of_no_length_is_one_fault(unit):
    config = valid_config()
    config.schedule.total_steps = None
    config.schedule[f"total_{unit}"] = 0
    (fault,) = configuration.check(config)
    assert fault.startswith(f"schedule.total_{unit}=0")


def test_indented_lines_belong_to_the_fault_above_them():
    error = ValueError("weights don't fit:\n  head: 3\n  stem: 4\nmodel.depth=0.")
    faults = configuration.faults_in(error)
    assert faults == ["weights don't fit:\n  head: 3\n  stem: 4", "model.depth=0."]
    with pytest.raises(ValueError, match="^2 faults:\n  1. weights don't fit:\n  "):
        configuration.refuse(faults)
    with pytest.raises(ValueError, match="^weights don't fit:\n  head: 3\n  stem: 4$"):
        configuration.refuse(faults[:1])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_check_refuses_numbers_that_are_none(value):
    config = valid_config()
    config.schedule.base_learning_rate = value
    assert "schedule.base_learning_rate" in configuration.check(config)[0]


def test_json_round_trip_keeps_every_value_and_type():
    config = valid_config()
    config.model.image_size = (224, 320)
    config.model.num_classes = 7
    again = configuration.from_values(json.loads(configuration.to_json(config)))
    assert configuration.flatten(again) == configuration.flatten(config)


def test_json_with_an_unknown_key_is_refused():
    with pytest.raises(ValueError, match=r"model\.colour is not a configuration key"):
        configuration.from_values({"model": {"colour": 1}})


def test_description_names_every_key():
    text = configuration.describe()
    assert all(f"  {key.name} = " in text for key in configuration.KEYS)


def test_words_of_the_model_are_those_that_the_model_takes():
    fields = {field.name: field for field in dataclasses.fields(VitSpec)}
    for key in configuration.KEYS:
        group, _, name = key.name.partition(".")
        if group != "model" or not key.choices or key.type is int:
            continue
        # Training needs one vector an image, which "none" doesn't give.
        taken = set(fields[name].metadata["choices"])
        assert set(key.choices) == (taken - {"none"} if name == "pool" else taken)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model.channels", 2, "model.channels=2 must be one of 1, 3."),
        ("augment.crop_area", (0.0, 1.0), "augment.crop_area=(0.0,1.0) must be"),
    ],
)
def test_what_is_refused_later_lies_out_of_range(name, value, message):
    config = configuration.default_config()
    config.update_from_flattened_dict({name: value})
    assert any(fault.startswith(message) for fault in configuration.check(config))
