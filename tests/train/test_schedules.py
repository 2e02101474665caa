"""Learning rates by step."""

import numpy as np
import pytest

from vit_jax.train import schedules


def rates(steps, **arguments):
    schedule = schedules.make_schedule(1.0, **arguments)
    return [float(schedule(step)) for step in steps]


def test_total_steps_counts_the_warmup():
    found = rates([0, 5, 10, 55, 100], total_steps=100, warmup_steps=10, decay="cosine")
    np.testing.assert_allclose(found, [0, 0.5, 1, 0.5, 0], atol=1e-6)


def test_linear_falls_to_zero_and_constant_stays():
    linear = rates([10, 55, 100], total_steps=100, warmup_steps=10, decay="linear")
    np.testing.assert_allclose(linear, [1, 0.5, 0], atol=1e-6)
    constant = rates([10, 55, 99], total_steps=100, warmup_steps=10, decay="constant")
    np.testing.assert_allclose(constant, [1, 1, 1])


def restated(step, decay, total, warmup, cooldown, start, end, timescale):
    """The rates of a peak of 1 once more, in numpy and in another form."""
    if step < warmup:
        rate = start + (1 - start) * step / warmup
    else:
        done = min((step - warmup) / (total - warmup), 1)
        rate = {
            "cosine": end + (1 - end) * (np.cos(np.pi * done) + 1) / 2,
            "linear": 1 + (end - 1) * done,
            "rsqrt": np.sqrt(timescale / (timescale + step - warmup)),
            "constant": 1.0,
        }[decay]
    left = (total - step) / cooldown if cooldown else 1
    return rate * min(max(left, 0), 1)


@pytest.mark.parametrize("warmup", [0, 7])
@pytest.mark.parametrize("decay", ["cosine", "linear", "rsqrt", "constant"])
def test_every_form_at_every_step_is_the_one_restated_in_numpy(decay, warmup):
    cooldown = 0 if decay in ("cosine", "linear") else 11
    start, end = 0.1 if warmup else 0.0, 0.05
    found = rates(
        range(43),
        decay=decay,
        total_steps=40,
        warmup_steps=warmup,
        cooldown_steps=cooldown,
        start=start,
        end=end,
        timescale=20,
    )
    expected = [
        restated(step, decay, 40, warmup, cooldown, start, end, 20)
        for step in range(43)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_without_warmup_the_first_update_has_the_peak():
    assert rates([0], total_steps=100, warmup_steps=0, decay="cosine") == [1.0]


@pytest.mark.parametrize("warmup_steps", [0, 500])
def test_a_run_of_one_step_has_no_warmup(warmup_steps):
    found = rates([0], total_steps=1, warmup_steps=warmup_steps, decay="cosine")
    assert found == [1.0]


def test_a_peak_of_zero_stays_zero():
    schedule = schedules.make_schedule(0.0, decay="cosine", total_steps=9)
    assert [float(schedule(step)) for step in (0, 5, 9)] == [0, 0, 0]


@pytest.mark.parametrize("warmup_steps", [100, 500])
def test_warmup_that_leaves_no_step_is_refused(warmup_steps):
    with pytest.raises(ValueError, match=rf"warmup_steps={warmup_steps} must be less"):
        rates([0], total_steps=100, warmup_steps=warmup_steps, decay="cosine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decay": "cosine", "cooldown_steps": 5}, "goes with schedule.decay=rsqrt"),
        (
            {"decay": "rsqrt", "cooldown_steps": 60, "warmup_steps": 50},
            "must fit into the total of 100 steps",
        ),
        (
            {"decay": "cosine", "start": 2.0},
            r"schedule\.start_rate=2 must not be above",
        ),
        ({"decay": "linear", "end": 2.0}, r"schedule\.end_rate=2 must not be above"),
    ],
)
def test_phases_and_rates_that_do_not_go_together_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        rates([0], total_steps=100, **arguments)


@pytest.mark.parametrize(
    ("unit", "value", "steps"),
    [("steps", 7, 7), ("epochs", 2.5, 125), ("examples", 640, 32), ("share", 0.05, 15)],
)
def test_durations_of_every_unit_become_optimizer_steps(unit, value, steps):
    found = schedules.steps_of(
        unit, value, batch_size=20, num_examples=1000, total_steps=300
    )
    assert found == steps


@pytest.mark.parametrize(
    ("base", "batch_size", "base_batch_size", "rate"),
    [
        (1e-3, 4096, 256, 0.016),
        (1e-3, 64, 256, 2.5e-4),
        (5e-4, 1024, 512, 1e-3),
        (1.5e-4, 4096, 256, 2.4e-3),
        (1e-3, 4096, 0, 1e-3),
    ],
)
def test_linear_scaling(base, batch_size, base_batch_size, rate):
    found = schedules.scaled_learning_rate(
        base, batch_size=batch_size, base_batch_size=base_batch_size
    )
    np.testing.assert_allclose(found, rate, rtol=1e-12)
