"""Durations of a config, in every unit, as steps and rates."""

import copy

import pytest

from tests.train.digits import tiny_config
from vit_jax.train import durations
from vit_jax.train.stages import plan_stages

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


def staged(**changes):
    return config(
        **{
            "model__image_size": (16,),
            "schedule__stages": ((8, 0.5, 32), (16, 0.5, 16)),
        }
        | changes
    )


@pytest.mark.parametrize(
    ("changes", "peak_step"),
    [
        ({"schedule__warmup_examples": 640.0}, 20),
        ({"schedule__warmup_epochs": 0.4}, 20),
        ({"schedule__warmup_examples": 3200.0 + 160}, 110),
        ({"schedule__cooldown_examples": 640.0}, 160),
        ({"schedule__cooldown_examples": 1600.0 + 320}, 90),
    ],
)
def test_a_phase_counts_its_examples_through_the_batches_of_the_stages(
    changes, peak_step
):
    changes = {"schedule__decay": "constant"} | changes
    schedule = durations.make_schedule(staged(**changes), EXAMPLES, 200)
    beside = peak_step + (-1 if "warmup" in str(changes) else 1)
    assert float(schedule(peak_step)) == 1
    assert float(schedule(beside)) < 1


@pytest.mark.parametrize("decay", ["cosine", "linear"])
def test_the_batch_of_a_stage_moves_the_peak_and_neither_end(decay):
    changed = staged(
        schedule__base_batch_size=16,
        schedule__decay=decay,
        schedule__warmup_steps=50,
        schedule__start_rate=0.2,
        schedule__end_rate=0.1,
    )
    plain = durations.make_schedule(changed, EXAMPLES, 200)
    stages = plan_stages(changed, 200)
    schedule = durations.make_stage_schedule(changed, plain, EXAMPLES, stages)
    rates = [float(schedule(step)) for step in (0, 25, 50, 150, 200)]
    expected = [0.2, 1.1, 2.0, float(plain(150)), 0.1]
    assert rates == pytest.approx(expected, rel=1e-6)
    last = copy.deepcopy(changed)
    last.schedule.stages = ((8, 0.5, 16), (16, 0.5, 32))
    stages = plan_stages(last, 200)
    schedule = durations.make_stage_schedule(last, plain, EXAMPLES, stages)
    assert float(schedule(0)) == pytest.approx(0.2)
    assert float(schedule(200)) == pytest.approx(0.1)
