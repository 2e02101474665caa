"""Numbers that all processes of a run see at the same step."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Agreement:
    """The largest of each number over all processes.

    A signal or a clock reaches one process before another; acting on it at different
    steps would leave the others waiting in a collective for ever. So each call carries
    the numbers of all processes, and `lag` calls later all of them read the same
    result, by then without waiting for it. One process alone needs none of this.

    Args:
      lag: calls between numbers and their result, where there are several processes.
    """

    def __init__(self, lag: int):
        self._lag = lag if jax.process_count() > 1 else 0
        self._under_way = collections.deque()
        if self._lag:
            first = {device.process_index: device for device in reversed(jax.devices())}
            mesh = Mesh(np.array([first[process] for process in sorted(first)]), "p")
            self._split = NamedSharding(mesh, PartitionSpec("p"))
            self._largest = jax.jit(
                lambda numbers_PN: jnp.max(numbers_PN, axis=0),
                out_shardings=NamedSharding(mesh, PartitionSpec()),
            )

    def __call__(self, *numbers: int) -> tuple[int, ...]:
        """The largest of the numbers that each process gave `lag` calls ago; 0 before.

        All processes must call it equally often, with as many numbers each time.
        """
        if not self._lag:
            return numbers
        numbers_PN = jax.make_array_from_process_local_data(
            self._split, np.array([numbers], np.int32)
        )
        self._under_way.append(self._largest(numbers_PN))
        if len(self._under_way) <= self._lag:
            return (0,) * len(numbers)
        return tuple(jax.device_get(self._under_way.popleft()).tolist())

    def forget(self) -> None:
        """Drops what is under way, as when it has been acted on already."""
        self._under_way.clear()
