"""From the config's durations, in whatever unit, to steps and a schedule."""

import copy
from collections.abc import Sequence

import optax
from ml_collections import ConfigDict

from vit_jax.train import schedules
from vit_jax.train.stages import (
    Stage,
    mean_batch_size,
    scale_by_stage,
    steps_and_batches,
)

_UNITS = ("steps", "epochs", "examples", "share")


def total_steps(config: ConfigDict, num_examples: int | None) -> int | None:
    """Optimizer steps of the run; None where the data that would tell is not there.

    Args:
      num_examples: of one epoch; None where the data can't be read.
    """
    _, steps = _duration(config, "total", _UNITS[:3], num_examples)
    return None if steps is None else max(1, steps)


def peak_learning_rate(config: ConfigDict, batch_size: int | None = None) -> float:
    """The schedule's highest rate, scaled with the batch where the config says so.

    Args:
      batch_size: of a stage; None: the run's.
    """
    return schedules.scaled_learning_rate(
        config.schedule.base_learning_rate,
        batch_size=batch_size or config.data.train.batch_size,
        base_batch_size=config.schedule.base_batch_size,
    )


def make_schedule(
    config: ConfigDict, num_examples: int | None, total_steps: int | None
) -> optax.Schedule | None:
    """Step -> learning rate; None where the length of the run is not known.

    Raises:
      ValueError: warmup, cooldown or a rate doesn't fit; names the key that is set.
    """
    if total_steps is None:
        return None
    warmup, cooldown = (
        _duration(config, phase, _UNITS, num_examples, total_steps)
        for phase in ("warmup", "cooldown")
    )
    try:
        return schedules.make_schedule(
            peak_learning_rate(config),
            decay=config.schedule.decay,
            total_steps=total_steps,
            warmup_steps=warmup[1] or 0,
            cooldown_steps=cooldown[1] or 0,
            start=config.schedule.start_rate,
            end=config.schedule.end_rate,
            timescale=config.schedule.timescale,
        )
    except ValueError as error:
        text = str(error)
        for phase, (key, steps) in (("warmup", warmup), ("cooldown", cooldown)):
            if not key.startswith(f"{phase}_steps"):
                text = text.replace(f"{phase}_steps={steps}", f"{key} ({steps} steps)")
        raise ValueError(text) from error


def make_stage_schedule(
    config: ConfigDict,
    schedule: optax.Schedule,
    num_examples: int | None,
    stages: Sequence[Stage],
) -> optax.Schedule:
    """`schedule` with the peak of each stage's batch, where the rate follows the batch.

    Both ends, `start_rate` and `end_rate`, stay as they are.

    Args:
      schedule: what `make_schedule` gave.
      num_examples: of one epoch.
    """
    if not config.schedule.base_batch_size:
        return schedule
    # Every form is a share of the peak plus shares of both ends; this is the first.
    without_ends = copy.deepcopy(config)
    without_ends.schedule.start_rate = without_ends.schedule.end_rate = 0.0
    following = make_schedule(without_ends, num_examples, stages[-1].last_step)
    return scale_by_stage(schedule, following, stages, config.data.train.batch_size)


def _duration(
    config: ConfigDict,
    phase: str,
    units: Sequence[str],
    num_examples: int | None,
    total_steps: int = 0,
) -> tuple[str, int | None]:
    """(key=value that says how long a phase is, that in steps).

    The steps are 0 where no key of the phase is set, and None where the data is needed
    to tell and not there.
    """
    for unit in units:
        value = config.schedule[f"{phase}_{unit}"]
        if not value:
            continue
        if unit == "epochs" and num_examples is None:
            return "", None
        if phase != "total" and unit in ("epochs", "examples"):
            examples = value * (num_examples or 0) if unit == "epochs" else value
            steps = _steps_through(config, examples, total_steps, phase == "cooldown")
            return f"{phase}_{unit}={value}", steps
        steps = schedules.steps_of(
            unit,
            value,
            batch_size=mean_batch_size(config),
            num_examples=num_examples or 0,
            total_steps=total_steps,
        )
        return f"{phase}_{unit}={value}", steps
    return f"{phase}_steps=0", 0


def _steps_through(
    config: ConfigDict, examples: float, total_steps: int, from_end: bool
) -> int:
    """Steps that take `examples`, each stage's in its own batch.

    What the run has no steps for is counted in the batch of the stage it ran out in.

    Args:
      from_end: whether they are the last of the run, not the first.
    """
    stretches = steps_and_batches(config, total_steps)
    steps = 0.0
    for length, batch in stretches[::-1] if from_end else stretches:
        taken = min(length, examples / batch)
        steps += taken
        examples -= taken * batch
    return round(steps + examples / batch)
