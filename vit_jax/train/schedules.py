"""Learning rate by step, and how it follows the batch size."""

import optax


def scaled_learning_rate(
    base: float, *, batch_size: int, base_batch_size: int
) -> float:
    """Peak rate under linear scaling: base * batch_size / base_batch_size.

    Args:
      base: rate that belongs to `base_batch_size`.
      batch_size: examples of one optimizer step over all devices.
      base_batch_size: 0 leaves `base` as it is.

    Source: Goyal et al. 2017, section 2.1.
    """
    return base * batch_size / base_batch_size if base_batch_size else base


def warmup_then_decay(
    peak: float, *, total_steps: int, warmup_steps: int, decay: str
) -> optax.Schedule:
    """Step -> rate: linear from 0 to `peak`, then "cosine", "linear" or "constant".

    `total_steps` counts the warmup; the decaying forms reach 0 at `total_steps`. The
    update that makes step s+1 out of step s uses the rate of s, so without warmup the
    first update has the peak, and with warmup a rate of 0.

    Raises:
      ValueError: `warmup_steps` leaves no step for the decay.
    """
    if warmup_steps and warmup_steps >= total_steps:
        raise ValueError(
            f"schedule.warmup_steps={warmup_steps} must be less than the total of "
            f"{total_steps} steps; 5 to 10 % of it is usual."
        )
    decay_steps = max(total_steps - warmup_steps, 1)
    decays = {
        "cosine": lambda: optax.cosine_decay_schedule(peak, decay_steps),
        "linear": lambda: optax.linear_schedule(peak, 0.0, decay_steps),
        "constant": lambda: optax.constant_schedule(peak),
    }
    after = decays[decay]()
    if not warmup_steps:
        return after
    rise = optax.linear_schedule(0.0, peak, warmup_steps)
    return optax.join_schedules([rise, after], [warmup_steps])
