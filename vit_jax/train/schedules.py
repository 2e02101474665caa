"""Learning rate by step, and how it follows the batch size."""

import jax.numpy as jnp
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


def steps_of(
    unit: str, value: float, *, batch_size: int, num_examples: int, total_steps: int
) -> int:
    """A duration as a whole number of optimizer steps.

    Args:
      unit: "steps", "epochs", "examples", or "share" of `total_steps`.
      value: in that unit.
      batch_size: examples of one optimizer step over all devices.
      num_examples: of one epoch.
    """
    steps = {
        "steps": value,
        "epochs": value * num_examples / batch_size,
        "examples": value / batch_size,
        "share": value * total_steps,
    }
    return round(steps[unit])


def make_schedule(
    peak: float,
    *,
    decay: str,
    total_steps: int,
    warmup_steps: int = 0,
    cooldown_steps: int = 0,
    start: float = 0.0,
    end: float = 0.0,
    timescale: int = 10_000,
) -> optax.Schedule:
    """Step -> rate: linear from `start` to `peak`, then "cosine", "linear", "rsqrt" or
    "constant", then, after the last two, a linear fall to 0.

    The update that makes step s+1 out of step s uses the rate of s, so without warmup
    the first update has the peak, and with warmup the rate `start`.

    Args:
      peak: highest rate.
      decay: its form after the warmup. Rsqrt is peak / sqrt(1 + s / timescale) at s
        steps after the warmup (Zhai et al. 2022, arXiv 2106.04560, section 3.5, in
        big_vision's form).
      total_steps: of the run, warmup and cooldown included.
      warmup_steps: of linear rise. A run of one step has none.
      cooldown_steps: of linear fall, the last of the run; "rsqrt" and "constant" only.
      start: rate of step 0, where there is a warmup.
      end: rate at `total_steps` of "cosine" and "linear".
      timescale: of "rsqrt".

    Raises:
      ValueError: warmup and cooldown don't fit into the run, a rate is above the peak,
        or a cooldown is asked of a form that falls by itself.
    """
    warmup_steps = warmup_steps if total_steps > 1 else 0
    _check(peak, decay, total_steps, warmup_steps, cooldown_steps, start, end)
    decay_steps = max(total_steps - warmup_steps, 1)
    decays = {
        "cosine": lambda: optax.cosine_decay_schedule(
            peak, decay_steps, alpha=end / peak if peak else 0.0
        ),
        "linear": lambda: optax.linear_schedule(peak, end, decay_steps),
        "rsqrt": lambda: lambda step: peak / jnp.sqrt(1 + step / timescale),
        "constant": lambda: optax.constant_schedule(peak),
    }
    schedule = decays[decay]()
    if warmup_steps:
        rise = optax.linear_schedule(start, peak, warmup_steps)
        schedule = optax.join_schedules([rise, schedule], [warmup_steps])
    if not cooldown_steps:
        return schedule
    return lambda step: (
        schedule(step) * jnp.clip((total_steps - step) / cooldown_steps, 0, 1)
    )


def _check(
    peak: float,
    decay: str,
    total_steps: int,
    warmup_steps: int,
    cooldown_steps: int,
    start: float,
    end: float,
) -> None:
    if warmup_steps and warmup_steps >= total_steps:
        raise ValueError(
            f"schedule.warmup_steps={warmup_steps} must be less than the total of "
            f"{total_steps} steps; 5 to 10 % of it is usual."
        )
    if cooldown_steps and decay in ("cosine", "linear"):
        raise ValueError(
            f"schedule.cooldown_steps={cooldown_steps} goes with schedule.decay=rsqrt "
            f"or constant; {decay} falls by itself, so leave the cooldown at 0."
        )
    if warmup_steps + cooldown_steps > total_steps:
        raise ValueError(
            f"schedule.cooldown_steps={cooldown_steps} and warmup_steps={warmup_steps} "
            f"must fit into the total of {total_steps} steps; shorten one of them."
        )
    for key, rate in (("start_rate", start), ("end_rate", end)):
        if rate > peak:
            raise ValueError(
                f"schedule.{key}={rate:g} must not be above the peak rate of {peak:g} "
                "(base_learning_rate, scaled with the batch); lower it."
            )
