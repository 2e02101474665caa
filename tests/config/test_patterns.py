"""Values that name parameters, as the command line, recipes and JSON have them."""

import json

import pytest

from vit_jax import config as configuration

FREEZE, RATES = "train.freeze", "optimizer.rate_multipliers"


def overridden(key, text):
    config = configuration.default_config()
    faults = configuration.override(config, {key: text})
    return faults, configuration.flatten(config)[key]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (FREEZE, "stem/.*", ("stem/.*",)),
        (FREEZE, "stem/.* (prefix|position)/.*", ("stem/.*", "(prefix|position)/.*")),
        (FREEZE, "('stem/.*', 'a{1,2}')", ("stem/.*", "a{1,2}")),
        (FREEZE, "unset", ()),
        (FREEZE, "", ()),
        (RATES, "head/.*=10 stem/.*=0.1", (("head/.*", 10.0), ("stem/.*", 0.1))),
        (RATES, "(?=head).*=2", (("(?=head).*", 2.0),)),
        (RATES, "(('head/.*',10),)", (("head/.*", 10.0),)),
        (RATES, "unset", ()),
    ],
)
def test_text_becomes_patterns_and_rules(key, text, value):
    assert overridden(key, text) == ([], value)


@pytest.mark.parametrize("text", ["head/.*", "head/.*=fast", "(('head',),)"])
def test_text_that_is_no_rule_is_refused(text):
    (fault,), value = overridden(RATES, text)
    assert fault.startswith(f"{RATES}={text} must be rules PATTERN=NUMBER")
    assert value == ()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (FREEZE, ("(",), "must be regular expressions of whole parameter names"),
        (FREEZE, ("",), "must be regular expressions"),
        (FREEZE, (3,), "must be regular expressions"),
        (RATES, (("head", -1.0),), "must be rules PATTERN=NUMBER"),
        (RATES, (("head", float("inf")),), "must be rules"),
        (RATES, (("head", True),), "must be rules"),
        (RATES, ("head",), "must be rules"),
    ],
)
def test_values_that_a_recipe_can_get_wrong_are_faults(key, value, message):
    config = configuration.default_config()
    config.data.source = "digits"
    config.schedule.total_steps = 1
    config.update_from_flattened_dict({key: value})
    (fault,) = configuration.check(config)
    assert fault.startswith(f"{key}=")
    assert message in fault


def test_json_round_trip_keeps_patterns_and_rules():
    config = configuration.default_config()
    config.train.freeze = ("stem/.*",)
    config.optimizer.rate_multipliers = (("head/.*", 10.0), ("stem/.*", 0.1))
    again = configuration.from_values(json.loads(configuration.to_json(config)))
    assert configuration.flatten(again) == configuration.flatten(config)


@pytest.mark.parametrize(
    "changes",
    [
        {"total_epochs": 1.0, "total_examples": 10.0},
        {"total_steps": 1, "total_examples": 10.0},
        {},
    ],
)
def test_exactly_one_total_is_asked_for(changes):
    config = configuration.default_config()
    config.data.source = "digits"
    config.schedule.update(changes)
    (fault,) = configuration.check(config)
    assert fault.startswith("schedule.total_steps=")
    assert "exactly one of them must be set" in fault


@pytest.mark.parametrize("phase", ["warmup", "cooldown"])
def test_a_phase_has_at_most_one_length(phase):
    config = configuration.default_config()
    config.data.source = "digits"
    config.schedule.total_steps = 10
    config.schedule.update({f"{phase}_epochs": 1.0, f"{phase}_share": 0.1})
    assert configuration.check(config) == [
        f"schedule.{phase}_epochs=1.0 and schedule.{phase}_share=0.1: at most one of "
        "them may be above 0; take the other back with "
        f"--config.schedule.{phase}_share=0."
    ]


@pytest.mark.parametrize("unit", ["epochs", "examples"])
def test_a_total_of_nothing_is_refused(unit):
    config = configuration.default_config()
    config.data.source = "digits"
    config.schedule.update({f"total_{unit}": 0.0})
    assert configuration.check(config) == [
        f"schedule.total_{unit}=0.0 must be above 0."
    ]
