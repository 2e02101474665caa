"""Time and memory of a conversion, beside those of reading and writing the files.

    python benchmarks/convert.py [--model=L/16] [--depth=0] [--to=timm] [--rounds=3]

Random weights of the model are written as an .npz. In turns, a process of its own reads
its arrays in NumPy and writes them again, and another one converts them; each counts
until its file lies on the disk. Printed are the medians of their wall and CPU seconds,
and the most memory that the conversion held beyond its imports, over the weights' size.
Wanted: less than twice the time, and less than three times the weights.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from etils import epath

SUFFIXES = {"timm": ".safetensors", "torchvision": ".pth", "npz": ".npz"}


def draw(file: str, model: str, depth: str) -> None:
    """Writes random arrays of a model's .npz, the original's names."""
    from vit_jax.convert.layout import Weights, describe, shapes_of
    from vit_jax.convert.target import encode
    from vit_jax.models.variants import resolve

    spec = resolve(model, {"depth": int(depth)} if int(depth) else {})
    size = (spec.image_size, spec.image_size)
    rng = np.random.default_rng(0)
    params = {
        name: rng.standard_normal(shape, np.float32)
        for name, shape in shapes_of(spec, (*size, 3)).items()
    }
    weights = Weights("orbax", spec, params, describe(size))
    np.savez(file, **encode(weights, "npz").arrays)
    settle(file)


def copy(source: str, dest: str) -> None:
    """Reads a file in NumPy and writes its arrays."""

    def work() -> None:
        with np.load(source) as archive:
            arrays = {name: archive[name] for name in archive.files}
        np.savez(dest, **arrays)

    measure(work, dest)


def convert(source: str, dest: str, layout: str) -> None:
    """Converts a file."""
    from vit_jax.convert.source import read
    from vit_jax.convert.target import write

    measure(
        lambda: write(read(source, gelu="exact"), epath.Path(dest), layout),
        dest,
    )


def measure(work: Callable[[], object], written: str) -> None:
    """Prints wall and CPU seconds, and peak bytes above those before."""
    before, cpu, wall = peak(), time.process_time(), time.perf_counter()
    work()
    settle(written)
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    print(*seconds, peak() - before)


def settle(file: str) -> None:
    """Waits until a file lies on the disk, so that nobody else writes it later."""
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())


def peak() -> int:
    """The most bytes that this process has held."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * (1 if sys.platform == "darwin" else 1024)


STEPS = {step.__name__: step for step in (draw, copy, convert)}


def in_a_process(step: Callable[..., None], *words: object) -> list[float]:
    """Numbers that a step prints in a process of its own.

    A process starts with its parent's peak for its own, so this one holds no weights.
    """
    command = [sys.executable, __file__, step.__name__, *map(str, words)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in said.stdout.split()]


def main() -> None:
    """Measures and prints one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="L/16", help="a variant of vit_jax")
    parser.add_argument("--depth", type=int, default=0, help="blocks; 0: all")
    parser.add_argument("--to", default="timm", choices=list(SUFFIXES))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    plain, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.npz"
        in_a_process(draw, source, given.model, given.depth)
        size = source.stat().st_size
        for _ in range(given.rounds):
            copied = Path(folder) / "copy.npz"
            plain.append(in_a_process(copy, source, copied))
            copied.unlink()
            dest = Path(folder) / f"out{SUFFIXES[given.to]}"
            ours.append(in_a_process(convert, source, dest, given.to))
            dest.unlink()
    wall, cpu = ([row[i] for row in ours] for i in (0, 1))
    plain_wall, plain_cpu = ([row[i] for row in plain] for i in (0, 1))
    print(
        f"{given.model} ({size / 2**20:.0f} MiB) to {given.to}, medians of "
        f"{given.rounds}: {against(wall, plain_wall)}; CPU {against(cpu, plain_cpu)}; "
        f"peak memory {max(row[2] for row in ours) / size:.2f} times the weights"
    )


def against(ours: list[float], plain: list[float]) -> str:
    """Median seconds, and over those of reading and writing."""
    one, other = statistics.median(ours), statistics.median(plain)
    return f"{one:.1f} s, {one / other:.2f} times reading and writing ({other:.1f} s)"


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in STEPS:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        STEPS[sys.argv[1]](*sys.argv[2:])
    else:
        main()
