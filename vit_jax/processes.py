"""What the processes of a run do or learn together; one process alone never waits."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


def lead(act: Callable[[], Any], failed: str) -> None:
    """Returns on every process when process 0 has acted for all of them.

    Args:
      act: is called on process 0 alone.
      failed: what the other processes say when it raised there.

    Raises:
      ValueError: it raised on process 0, which raises what it raised.
    """
    error: Exception | None = None
    if jax.process_index() == 0:
        try:
            act()
        except Exception as raised:
            error = raised
    if largest(error is not None) and error is None:
        raise ValueError(f"{failed} Process 0 says more.")
    if error is not None:
        raise error


def largest(number: int) -> int:
    """The largest of the numbers that all processes give.

    All must call it, and wait for one another in it.
    """
    if jax.process_count() == 1:
        return int(number)
    numbers_P = multihost_utils.process_allgather(np.int32(number))
    return int(np.max(numbers_P))
