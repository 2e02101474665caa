"""Time and memory of a conversion, beside those of reading and writing the files.

    python benchmarks/convert.py [--model=L/16] [--depth=0] [--to=timm]

Random weights of the model are written as an .npz, and a process of its own converts
them. Printed are the seconds of the conversion over those of reading the arrays and
writing them again, and the process's peak memory, less what the imports take, over the
weights' size. Wanted: less than 2, and less than 3.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from etils import epath

CHILD = "--child"
SUFFIXES = {"timm": ".safetensors", "torchvision": ".pth", "npz": ".npz"}


def drawn(model: str, depth: int) -> dict[str, np.ndarray]:
    """Random arrays of a model's .npz, the original's names."""
    from vit_jax.convert.layout import Weights, describe, shapes_of
    from vit_jax.convert.target import encode
    from vit_jax.models.variants import resolve

    spec = resolve(model, {"depth": depth} if depth else {})
    size = (spec.image_size, spec.image_size)
    rng = np.random.default_rng(0)
    params = {
        name: rng.standard_normal(shape, np.float32)
        for name, shape in shapes_of(spec, (*size, 3)).items()
    }
    return encode(Weights("orbax", spec, params, describe(size)), "npz").arrays


def copied(source: Path, dest: Path) -> float:
    """Seconds to read a file in numpy and to write its arrays to the disk."""
    start = time.perf_counter()
    with np.load(source) as archive:
        arrays = {name: archive[name] for name in archive.files}
    with open(dest, "wb") as output:
        np.savez(output, **arrays)
    return time.perf_counter() - start


def convert(source: str, dest: str, layout: str) -> None:
    """Converts and prints seconds and peak bytes above what the imports take."""
    from vit_jax.convert.source import read
    from vit_jax.convert.target import write

    before = peak()
    start = time.perf_counter()
    write(read(source, gelu="exact"), epath.Path(dest), layout)
    print(time.perf_counter() - start, peak() - before)


def peak() -> int:
    """The most bytes that this process has held."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Measures and prints one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="L/16", help="a variant of vit_jax")
    parser.add_argument("--depth", type=int, default=0, help="blocks; 0: all")
    parser.add_argument("--to", default="timm", choices=list(SUFFIXES))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, dest = (
            Path(folder) / "in.npz",
            Path(folder) / f"out{SUFFIXES[given.to]}",
        )
        np.savez(source, **drawn(given.model, given.depth))
        size = source.stat().st_size
        plain = copied(source, Path(folder) / "copy.npz")
        command = [sys.executable, __file__, CHILD, str(source), str(dest), given.to]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds, memory = map(float, said.stdout.split()[-2:])
    print(
        f"{given.model} ({size / 2**20:.0f} MiB) to {given.to}: {seconds:.2f} s, "
        f"{seconds / plain:.2f} times reading and writing ({plain:.2f} s); peak memory "
        f"{memory / 2**20:.0f} MiB, {memory / size:.2f} times the weights"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        convert(*sys.argv[2:])
    else:
        main()
