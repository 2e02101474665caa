"""The training step, compiled for TPUs that are not here.

libtpu, which has the compiler, also looks for a TPU and tells of it at length when it
is loaded. So it is loaded in a child process alone: `python -m vit_jax.plan.compile`
reads a job from its standard input and writes one line of JSON.
"""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.plan import hlo, tracing
from vit_jax.plan.parts import abstract_batch, planned_parts
from vit_jax.plan.targets import Target, parse_target

# With these libtpu neither asks the network what machine this is nor warns that it got
# no answer, and several may compile at once: no TPU is taken. The cache would make the
# seconds of compiling mean nothing.
_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}
_OUT_OF_MEMORY = re.compile(r"Used ([\d.]+)([KMG]) of ([\d.]+)([KMG]) hbm")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the TPU compiler says of a training step, on each device.

    Attributes:
      bytes_per_device: the step's arguments, results and scratch memory.
      arguments, temporaries: parts of it.
      flops_per_device: loops in full.
      bytes_accessed_per_device: between memory and chip, loops in full.
      collectives: what the devices send each other.
      compile_seconds: of the compiler alone.
    """

    bytes_per_device: int
    arguments: int
    temporaries: int
    flops_per_device: float
    bytes_accessed_per_device: float
    collectives: tuple[hlo.Collective, ...]
    compile_seconds: float


class DoesNotFit(ValueError):
    """The compiler found that the step needs more memory than a device has.

    Args:
      used: bytes that it needs.
      available: bytes that there are.
    """

    def __init__(self, used: int, available: int):
        super().__init__(
            f"the compiler needs {used / 2**30:.1f} GiB a device and there are "
            f"{available / 2**30:.1f}."
        )
        self.used = used
        self.available = available


def compile_step(config: ConfigDict, num_examples: int, target: Target) -> Compiled:
    """Compiles the training step of a config for a TPU slice; takes minutes.

    Raises:
      ValueError: the target is no TPU; libtpu is missing; the config can't be compiled.
      DoesNotFit: it is compiled and too large.
    """
    if not target.topology:
        raise ValueError(
            f"--target={target.name}: --compile is for tpu: targets; the compiler for "
            "a GPU needs one."
        )
    if importlib.util.find_spec("libtpu") is None:
        raise ValueError(
            "--compile needs libtpu, which has the TPU compiler: pip install "
            "'vit_jax[compile]'."
        )
    job = {
        "config": json.loads(configuration.to_json(config)),
        "num_examples": num_examples,
        "target": target.name,
    }
    printed = in_child(["-m", "vit_jax.plan.compile"], json.dumps(job))
    answer = json.loads(printed.splitlines()[-1])
    if "fault" in answer:
        raise ValueError(answer["fault"])
    if "used" in answer:
        raise DoesNotFit(answer["used"], answer["available"])
    kinds = tuple(hlo.Collective(**each) for each in answer.pop("collectives"))
    return Compiled(collectives=kinds, **answer)


def in_child(arguments: Sequence[str], text: str = "") -> str:
    """What Python prints, run with `arguments` where libtpu may be loaded.

    Raises:
      RuntimeError: it failed; with the end of what it said.
    """
    ended = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        env=os.environ | _ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise RuntimeError(
            f"the TPU compiler failed (status {ended.returncode}): "
            f"{ended.stderr.strip()[-2000:]}"
        )
    return ended.stdout


def topology_devices(target: Target) -> list[Any]:
    """The devices of a slice that is not here; loads libtpu into this process."""
    from jax.experimental import topologies

    options: dict[str, Any] = {}
    if target.model == "v4":
        # Both cores of a chip as one device, which is what JAX shows on a TPU v4.
        options["chip_config_name"] = "megacore"
    if target.topology in ((1, 1), (2, 4)):
        # One host; by default a host has 2 x 2 chips.
        options["chips_per_host_bounds"] = (*target.topology, 1)
    name = f"{target.model}:{'x'.join(map(str, target.topology))}"
    found = topologies.get_topology_desc(platform="tpu", topology_name=name, **options)
    return list(found.devices)


def _compile(job: dict[str, Any]) -> dict[str, Any]:
    """In the child process: the figures, or what is wrong."""
    import jax

    config = configuration.from_values(job["config"])
    devices = topology_devices(parse_target(job["target"]))
    parts = planned_parts(config, job["num_examples"], devices)
    traced = parts.train_step.trace(parts.state, abstract_batch(parts))
    lowered = traced.lower()
    started = time.perf_counter()
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        found = _OUT_OF_MEMORY.search(str(error))
        if not found:
            raise
        used, used_unit, there, unit = found.groups()
        return {
            "used": int(float(used) * _UNITS[used_unit]),
            "available": int(float(there) * _UNITS[unit]),
        }
    seconds = time.perf_counter() - started
    return _figures(traced.jaxpr, compiled, seconds)


def _figures(jaxpr: Any, compiled: Any, seconds: float) -> dict[str, Any]:
    memory, costs = compiled.memory_analysis(), compiled.cost_analysis()
    program = hlo.parse(compiled.as_text())
    # The compiler counts a loop's body once.
    loops = tracing.flops(jaxpr) / tracing.flops(jaxpr, loops=False)
    live = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    # Results that reuse the memory of arguments take none.
    live += memory.output_size_in_bytes - memory.alias_size_in_bytes
    return {
        "bytes_per_device": live,
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "flops_per_device": costs["flops"] * loops,
        "bytes_accessed_per_device": costs["bytes accessed"]
        * hlo.bytes_by_loops(program),
        "collectives": [vars(each) for each in hlo.collectives(program)],
        "compile_seconds": seconds,
    }


def main() -> None:
    """The child process: a job in JSON on standard input, an answer on the output."""
    try:
        answer = _compile(json.load(sys.stdin))
    except ValueError as error:
        answer = {"fault": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
