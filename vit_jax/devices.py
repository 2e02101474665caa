"""Peak FLOP/s, memory and bandwidths of the accelerators that people rent or own.

The figures are the vendors', of dense products (without sparsity), a chip or a card:

- TPU: Google's "System architecture" page of each version,
  https://docs.cloud.google.com/tpu/docs/v4 (and v5e, v5p, v6e). The interconnect is one
  direction of all links together.
- A100, H100, H200, L4: NVIDIA's data sheet of each, the SXM card where there are two;
  NVLink in one direction, PCIe for L4.
- RTX 4090: NVIDIA Ada GPU Architecture, version 2.1, appendix A; bfloat16 that sums in
  float32.

float32 products run as JAX runs them unless told otherwise: in one bfloat16 pass on a
TPU, as TF32 on a GPU.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from types import MappingProxyType

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Device:
    """What one accelerator can do.

    Attributes:
      platform: "tpu" or "gpu".
      kinds: what `jax.Device.device_kind` says of it, or begins with.
      peak_bfloat16: FLOP/s of products in bfloat16.
      peak_float32: likewise of float32 inputs.
      memory: bytes; vendors' GB are 2**30 in effect.
      bandwidth: bytes/s between memory and chip.
      interconnect: bytes/s that one device sends to others of its kind.
    """

    platform: str
    kinds: tuple[str, ...]
    peak_bfloat16: float
    peak_float32: float
    memory: int
    bandwidth: float
    interconnect: float

    def peak(self, dtype: str) -> float:
        """FLOP/s of products of "bfloat16" or "float32" inputs."""
        return {"bfloat16": self.peak_bfloat16, "float32": self.peak_float32}[dtype]


def _tpu(
    kinds: tuple[str, ...],
    tflops: float,
    gib: int,
    bandwidth: float,
    interconnect: float,
) -> Device:
    peak = tflops * 1e12
    return Device("tpu", kinds, peak, peak, gib * GIB, bandwidth, interconnect)


def _gpu(
    kind: str,
    tflops: float,
    tf32_tflops: float,
    gib: int,
    bandwidth: float,
    interconnect: float,
) -> Device:
    peaks = tflops * 1e12, tf32_tflops * 1e12
    return Device("gpu", (kind,), *peaks, gib * GIB, bandwidth, interconnect)


DEVICES: Mapping[str, Device] = MappingProxyType(
    {
        "v4": _tpu(("TPU v4",), 275, 32, 1.2e12, 300e9),
        "v5e": _tpu(("TPU v5 lite", "TPU v5e"), 197, 16, 0.819e12, 200e9),
        "v5p": _tpu(("TPU v5", "TPU v5p"), 459, 95, 2.765e12, 600e9),
        "v6e": _tpu(("TPU v6 lite", "TPU v6e"), 918, 32, 1.638e12, 400e9),
        "a100": _gpu("NVIDIA A100", 312, 156, 80, 2.039e12, 300e9),
        "h100": _gpu("NVIDIA H100", 989.4, 494.7, 80, 3.35e12, 450e9),
        "h200": _gpu("NVIDIA H200", 989.4, 494.7, 141, 4.8e12, 450e9),
        "l4": _gpu("NVIDIA L4", 121, 60, 24, 0.3e12, 32e9),
        "rtx4090": _gpu("NVIDIA GeForce RTX 4090", 165.2, 82.6, 24, 1.008e12, 32e9),
    }
)


def device(name: str) -> Device:
    """The device called `name`, a key of `DEVICES`.

    Raises:
      ValueError: there is none; says which one is near.
    """
    if name not in DEVICES:
        near = difflib.get_close_matches(name.lower(), DEVICES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"device {name!r} is not known; there are {', '.join(DEVICES)}.{hint}"
        )
    return DEVICES[name]


def by_kind(kind: str) -> Device | None:
    """The device that `jax.Device.device_kind` names, None where it isn't known.

    The longest name that `kind` begins with counts: "TPU v5 lite" is no "TPU v5".
    """
    found = [
        (len(name), known)
        for known in DEVICES.values()
        for name in known.kinds
        if kind == name or kind.startswith((f"{name} ", f"{name}-"))
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None
