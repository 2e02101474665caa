"""Keeps JAX from looking for a TPU where none can be.

With libtpu installed, as for `vit_jax plan --compile`, JAX starts it to look for a TPU:
seconds at start and a page of warnings on a machine without one. No import of JAX here:
it reads its environment when it is imported.
"""

import glob
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

_GOOGLE = "0x1ae0"
# The network card of Google's virtual machines is no TPU.
_NETWORK_CARD = "0x0042"
_CUDA = ("jax_cuda12_plugin", "jax_cuda13_plugin")


def leave_out_absent_tpus() -> None:
    """Sets JAX_PLATFORMS where libtpu is installed and no TPU is attached.

    What the caller has set stays, and nothing happens without libtpu.
    """
    if "JAX_PLATFORMS" in os.environ or not _installed("libtpu"):
        return
    if tpu_may_be_here(os.environ):
        return
    cuda = any(map(_installed, _CUDA)) and os.path.exists("/dev/nvidiactl")
    os.environ["JAX_PLATFORMS"] = "cuda,cpu" if cuda else "cpu"


def tpu_may_be_here(environment: Mapping[str, str], root: str = "/") -> bool:
    """Whether anything speaks for a TPU: a device, or an environment that names one.

    Args:
      root: of the file system.
    """
    named = ("TPU_NAME", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "JAX_FORCE_TPU_INIT")
    if any(name in environment for name in named):
        return True
    if glob.glob(f"{root}dev/accel*") or glob.glob(f"{root}dev/vfio/[0-9]*"):
        return True
    return any(
        Path(vendor).read_text().strip() == _GOOGLE
        and Path(vendor).with_name("device").read_text().strip() != _NETWORK_CARD
        for vendor in glob.glob(f"{root}sys/bus/pci/devices/*/vendor")
    )


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
