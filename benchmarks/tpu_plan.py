"""The formula of `vit_jax plan` beside the TPU compiler's figures, for docs/scaling.md.

    python benchmarks/tpu_plan.py MODEL:TOPOLOGY[:KEY=VALUE,…] …
    python benchmarks/tpu_plan.py S/16:v5e:2x2 S/16:v5e:2x2:train.scan=True

Each cell is `vit_pretrain` with 64 images a device unless data.train.batch_size says
otherwise. No TPU is needed but libtpu (pip install 'vit_jax[compile]'), and minutes a
cell.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

from vit_jax.cli.recipes import load_config
from vit_jax.config import refuse
from vit_jax.devices import GIB
from vit_jax.plan.make import make_plan
from vit_jax.plan.targets import parse_target

BASE = {
    "model.dropout": "0",
    "optimizer.clip_norm": "1.0",
    "optimizer.moment_dtype": "bfloat16",
}
HEAD = (
    "| cell | formula GiB | compiled GiB | difference | TFLOP | GB accessed | "
    "roofline s | compiling s |"
)


def row(cell: str) -> str:
    """The table's line of MODEL:TOPOLOGY[:KEY=VALUE,…]."""
    variant, model, topology, *keys = cell.split(":")
    target = f"tpu:{model}:{topology}"
    batch = 64 * parse_target(target).count
    given = dict(pair.split("=") for pair in ",".join(keys).split(",") if pair)
    values = BASE | {"data.train.batch_size": str(batch)} | given
    config, faults = load_config(f"vit_pretrain:variant={variant}", values)
    refuse(faults)
    plan = make_plan(config, [target], compiles=True)
    if plan.compiled is None:
        return f"| {cell} | | {plan.compiled_fault} | | | | | |"
    formula, compiled = plan.rows[0].fit.memory.total, plan.compiled
    return (
        f"| {cell} | {formula / GIB:.2f} | {compiled.bytes_per_device / GIB:.2f} | "
        f"{formula / compiled.bytes_per_device - 1:+.1%} | "
        f"{compiled.flops_per_device / 1e12:.2f} | "
        f"{compiled.bytes_accessed_per_device / 1e9:.1f} | "
        f"{plan.roofline.seconds:.4f} | {compiled.compile_seconds:.0f} |"
    )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    print(f"{HEAD}\n{'|---' * 8}|")
    for each in sys.argv[1:]:
        print(row(each), flush=True)
