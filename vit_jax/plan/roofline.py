"""How long a compiled step takes at least, if nothing stands in the way."""

import dataclasses

from vit_jax.devices import Device
from vit_jax.plan.compile import Compiled


@dataclasses.dataclass(frozen=True)
class Roofline:
    """Seconds of a step by each limit; the step takes the largest at least.

    The compiler's own `optimal_seconds` is negative on whole steps and not used.

    Attributes:
      compute: FLOPs at the device's peak.
      memory: bytes accessed at the memory's bandwidth.
      network: what collectives send, at the interconnect's bandwidth: an all-reduce
        sends its array twice, all others once (a ring of many devices).

    Source: Williams et al. 2009, "Roofline", doi 10.1145/1498765.1498785.
    """

    compute: float
    memory: float
    network: float

    @property
    def seconds(self) -> float:
        """The largest of the three."""
        return max(self.compute, self.memory, self.network)

    @property
    def limit(self) -> str:
        """Name of the largest."""
        return max(vars(self), key=lambda name: getattr(self, name))


def roofline(compiled: Compiled, device: Device, dtype: str) -> Roofline:
    """The limits of a compiled step on a device, products being of `dtype`."""
    sent = sum(
        each.bytes * (2 if each.kind == "all-reduce" else 1)
        for each in compiled.collectives
    )
    return Roofline(
        compute=compiled.flops_per_device / device.peak(dtype),
        memory=compiled.bytes_accessed_per_device / device.bandwidth,
        network=sent / device.interconnect,
    )
