"""Stages and evaluation sets as text."""

import pytest

from vit_jax import config as configuration
from vit_jax.config.listed import parse_sets, parse_stages


def overridden(key, text):
    config = configuration.default_config()
    faults = configuration.override(config, {key: text})
    faults += [fault for fault in configuration.check(config) if fault.startswith(key)]
    return config, faults


def test_stages_are_words_or_a_tuple():
    wanted = ((128, 0.6, 1024), ((160, 192), 0.4, 0))
    assert parse_stages("128:0.6:1024 160x192:0.4") == wanted
    assert parse_stages("((128, 0.6, 1024), ((160, 192), 0.4))") == wanted
    assert parse_stages("") == ()


def test_sets_are_words_or_a_tuple():
    wanted = (("v2", "gs://bucket/v2", "test"), ("few", "tfds:x", "train[:10%]"))
    assert parse_sets("v2=gs://bucket/v2:test few=tfds:x:train[:10%]") == wanted
    assert parse_sets(repr(wanted)) == wanted
    assert parse_sets("") == ()


def test_they_survive_the_config_file():
    config, faults = overridden("schedule.stages", "8x12:0.5:4 16:0.5")
    assert not faults
    import json

    stored = json.loads(configuration.to_json(config))
    assert configuration.from_values(stored).schedule.stages == config.schedule.stages


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("schedule.stages", "128", "must be stages SIZE:SHARE"),
        ("schedule.stages", "128:2", "must be stages SIZE:SHARE"),
        ("schedule.stages", "0:1", "must be stages SIZE:SHARE"),
        ("schedule.stages", "((1,2,3,4),)", "must be stages SIZE:SHARE"),
        ("evals.sets", "digits:test", "must be sets NAME=SOURCE:SPLIT"),
        ("evals.sets", "a=digits", "must be sets NAME=SOURCE:SPLIT"),
        ("evals.sets", "a/b=digits:test", "must be sets NAME=SOURCE:SPLIT"),
        ("evals.sets", "(('a', 'b'),)", "must be sets NAME=SOURCE:SPLIT"),
    ],
)
def test_text_that_spells_none_is_refused(key, text, message):
    _, faults = overridden(key, text)
    assert len(faults) == 1
    assert message in faults[0]


def test_a_name_of_two_sets_is_a_fault_since_one_would_hide_the_other():
    config = configuration.default_config()
    config.data.source, config.schedule.total_steps = "digits", 10
    config.evals.sets = (("new", "digits", "test"), ("old", "digits", "test"))
    assert configuration.check(config) == []
    config.evals.sets += (("new", "digits", "train"),)
    (fault,) = configuration.check(config)
    assert fault.startswith("evals.sets names new 2 times")
