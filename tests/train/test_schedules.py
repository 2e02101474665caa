"""Learning rates by step."""

import numpy as np
import pytest

from vit_jax.train import schedules


def rates(steps, **arguments):
    schedule = schedules.warmup_then_decay(1.0, **arguments)
    return [float(schedule(step)) for step in steps]


def test_total_steps_counts_the_warmup():
    found = rates([0, 5, 10, 55, 100], total_steps=100, warmup_steps=10, decay="cosine")
    np.testing.assert_allclose(found, [0, 0.5, 1, 0.5, 0], atol=1e-6)


def test_linear_falls_to_zero_and_constant_stays():
    linear = rates([10, 55, 100], total_steps=100, warmup_steps=10, decay="linear")
    np.testing.assert_allclose(linear, [1, 0.5, 0], atol=1e-6)
    constant = rates([10, 55, 99], total_steps=100, warmup_steps=10, decay="constant")
    np.testing.assert_allclose(constant, [1, 1, 1])


def test_without_warmup_the_first_update_has_the_peak():
    assert rates([0], total_steps=100, warmup_steps=0, decay="cosine") == [1.0]


def test_one_step_runs():
    assert rates([0], total_steps=1, warmup_steps=0, decay="cosine") == [1.0]


@pytest.mark.parametrize("warmup_steps", [100, 500])
def test_warmup_that_leaves_no_step_is_refused(warmup_steps):
    with pytest.raises(ValueError, match=rf"warmup_steps={warmup_steps} must be less"):
        rates([0], total_steps=100, warmup_steps=warmup_steps, decay="cosine")


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
