"""Steps whose loss or gradient is not a number: what is said and kept of them."""

import dataclasses
import math

import numpy as np

from vit_jax.train.assemble import Parts
from vit_jax.train.augment import examples_at
from vit_jax.train.stages import stage_before

_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class PassedOver:
    """Whether a step changed nothing, why, and whether that ends the run.

    It is false for a sound step.
    """

    reason: str = ""
    stops: bool = False

    def __bool__(self) -> bool:
        return bool(self.reason)


def passed_over(parts: Parts, step: int, figures: dict[str, float]) -> PassedOver:
    """What became of a step; its figures are made fit for the journal.

    Args:
      step: the state's after the step.
      figures: of the step, changed in place: those that are no number become None,
        "passed_over" is added, and "nonfinite_steps" stays where it is above 0.
    """
    count = int(figures.pop("nonfinite_steps"))
    if count:
        figures["nonfinite_steps"] = count
    bad = {name: value for name, value in figures.items() if not math.isfinite(value)}
    if not bad:
        return PassedOver()
    figures.update(dict.fromkeys(bad), passed_over=True)
    shown = ", ".join(f"{name} {value}" for name, value in bad.items())
    reason = f"{shown} on {examples_of(parts, step)}"
    limit = parts.config.train.max_nonfinite_steps
    if count > limit:
        return PassedOver(reason, stops=True)
    return PassedOver(
        f"step {step} is passed over, {count} of at most {limit}: {reason}"
    )


def examples_of(parts: Parts, step: int) -> str:
    """The examples that made `step`: their positions in the run, and first names."""
    stage = stage_before(parts.stages, step)
    size = stage.batch_size
    first = stage.first_position + (step - 1 - stage.first_step) * size
    positions = np.arange(first, first + min(size, _SHOWN), dtype=np.int64)
    source = parts.inputs.train_source
    names = [
        source.name(int(example))
        for example in examples_at(parts.config, positions, len(source))
    ]
    more = ", …" if size > _SHOWN else ""
    return (
        f"examples {first} to {first + size - 1} of the run ({', '.join(names)}{more})"
    )
