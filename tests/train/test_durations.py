"""Durations of a config, in every unit, as steps and rates."""

import pytest

from tests.train.digits import tiny_config
from vit_jax.train import durations

EXAMPLES = 1600


def config(**changes):
    return tiny_config(
        **{
            "schedule__base_learning_rate": 1.0,
            "schedule__total_steps": None,
            "schedule__total_epochs": 2.0,
        }
        | changes
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"schedule__total_epochs": None, "schedule__total_steps": 200},
        {"schedule__total_epochs": None, "schedule__total_examples": 3200.0},
    ],
)
def test_the_total_is_the_same_in_every_unit(changes):
    assert durations.total_steps(config(**changes), EXAMPLES) == 200


def test_only_epochs_need_the_data():
    assert durations.total_steps(config(), None) is None
    examples = {"schedule__total_epochs": None, "schedule__total_examples": 3200.0}
    assert durations.total_steps(config(**examples), None) == 200
    assert durations.make_schedule(config(), None, None) is None


def test_a_run_has_at_least_one_step():
    assert durations.total_steps(config(schedule__total_epochs=1e-6), EXAMPLES) == 1


@pytest.mark.parametrize(
    ("unit", "value"),
    [("steps", 50), ("epochs", 0.5), ("examples", 800.0), ("share", 0.25)],
)
@pytest.mark.parametrize("phase", ["warmup", "cooldown"])
def test_warmup_and_cooldown_are_the_same_in_every_unit(phase, unit, value):
    changes = {f"schedule__{phase}_{unit}": value, "schedule__decay": "constant"}
    schedule = durations.make_schedule(config(**changes), EXAMPLES, 200)
    ramp = {"warmup": (0, 25, 50), "cooldown": (200, 175, 150)}[phase]
    assert [float(schedule(step)) for step in ramp] == [0, 0.5, 1]
    assert float(schedule(100)) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"schedule__warmup_epochs": 5.0},
            r"schedule\.warmup_epochs=5\.0 \(500 steps\) must be less than",
        ),
        (
            {"schedule__warmup_steps": 500},
            r"schedule\.warmup_steps=500 must be less than the total of 200 steps",
        ),
        (
            {
                "schedule__decay": "rsqrt",
                "schedule__warmup_share": 0.5,
                "schedule__cooldown_epochs": 1.5,
            },
            r"cooldown_epochs=1\.5 \(150 steps\) and warmup_share=0\.5 \(100",
        ),
    ],
)
def test_a_phase_that_does_not_fit_is_named_by_the_key_that_was_set(changes, message):
    with pytest.raises(ValueError, match=message):
        durations.make_schedule(config(**changes), EXAMPLES, 200)


def test_the_rates_at_both_ends_are_those_of_the_config():
    changes = {
        "schedule__warmup_steps": 50,
        "schedule__start_rate": 0.5,
        "schedule__end_rate": 0.25,
    }
    schedule = durations.make_schedule(config(**changes), EXAMPLES, 200)
    assert [float(schedule(step)) for step in (0, 50, 200)] == [0.5, 1, 0.25]


def test_scaling_with_the_batch_is_applied_once():
    changed = config(schedule__base_batch_size=4)
    assert durations.peak_learning_rate(changed) == 4.0
    assert float(durations.make_schedule(changed, EXAMPLES, 200)(0)) == 4.0
