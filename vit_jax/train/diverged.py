"""What is said of steps whose loss or gradient is not a number."""

import numpy as np

from vit_jax.data.randomness import shuffled
from vit_jax.train.assemble import Parts
from vit_jax.workdir import Workdir

_SHOWN = 8


class TrainingDiverged(RuntimeError):
    """The loss or the gradient stopped being a number."""


def nonfinite(parts: Parts, step: int, figures: str) -> str:
    """What went wrong in which examples: their numbers in the run, and their names.

    Args:
      step: the state's after the step, so that its batch is the one before.
      figures: such as "loss nan".
    """
    size = parts.config.data.train.batch_size
    first = (step - 1) * size
    positions = np.arange(first, first + min(size, _SHOWN), dtype=np.int64)
    source = parts.inputs.train_source
    names = [
        source.name(int(example))
        for example in shuffled(parts.config.seed, positions, len(source))
    ]
    more = ", …" if size > _SHOWN else ""
    return (
        f"{figures} on examples {first} to {first + size - 1} of the run "
        f"({', '.join(names)}{more})"
    )


def diverged(
    parts: Parts, workdir: Workdir, step: int, saved_step: int, reason: str
) -> str:
    """Why training stops, what is left of it, and what to do.

    Args:
      saved_step: of the newest checkpoint, 0 where there is none.
    """
    saved = f"checkpoints/{saved_step} is the newest checkpoint"
    kept = saved if saved_step else "no checkpoint was saved before"
    limit = parts.config.train.max_nonfinite_steps
    return (
        f"training diverged at step {step}: {reason}; {kept} in {workdir.path}. Lower "
        "schedule.base_learning_rate, lengthen the warmup or lower "
        f"optimizer.clip_norm; train.max_nonfinite_steps={limit} says how many such "
        "steps may be passed over. The same command then goes on from that "
        "checkpoint; should it diverge again at once, move the checkpoint elsewhere "
        "to go on from the one before, or use another workdir."
    )
