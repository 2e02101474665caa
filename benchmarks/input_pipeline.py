"""Input pipelines beside each other: images/s and peak memory on the same photographs.

JPEG of 500x375 at quality 90, cut from photographs that installed packages bring
-> decode, random-resized crop to 224, flip, with and without RandAugment. Ours are
uint8 batches, as travel to the device; torchvision's DataLoader makes uint8 too.

    pip install scikit-image torch torchvision
    python benchmarks/input_pipeline.py --workers 1 2 --seconds 10 --rounds 3

Contenders take turns; the best round of each counts, since other programs can only slow
one down. Batches that were made ahead are drained before the clock starts.
"""

import argparse
import dataclasses
import io
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from vit_jax.data.decode import open_picture
from vit_jax.data.pipeline import train_batches
from vit_jax.data.randaugment import RandAugment
from vit_jax.data.randomness import uniform
from vit_jax.data.resample import resize, sampled
from vit_jax.data.sources import open_source
from vit_jax.data.transforms import TrainTransform

SIZE = 224
BATCH = 64
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
# Repeated until an epoch is long enough that no worker runs out of it.
COPIES = 40


@dataclasses.dataclass
class Result:
    """One contender's round: images a second, images for each second that its processes
    computed (which other programs disturb less), and their memory together."""

    images_per_second: float
    images_per_cpu_second: float
    peak_megabytes: float


def write_photographs(folder: Path) -> None:
    """96 JPEG files from photographs of scikit-image, scikit-learn and matplotlib."""
    import matplotlib
    import skimage
    import sklearn.datasets

    science = Path(skimage.__file__).parent / "data"
    learn = Path(sklearn.datasets.__file__).parent / "images"
    plots = Path(matplotlib.__file__).parent / "mpl-data" / "sample_data"
    names = "astronaut.png chelsea.png coffee.png hubble_deep_field.jpg rocket.jpg "
    names += "retina.jpg ihc.png motorcycle_left.png motorcycle_right.png"
    files = [science / name for name in names.split()]
    files += [learn / "china.jpg", learn / "flower.jpg", plots / "grace_hopper.jpg"]
    random = np.random.default_rng(0)
    for number, file in enumerate(files):
        photo = Image.open(file).convert("RGB")
        for part in range(8):
            scale = random.uniform(0.6, 1.0) * min(
                photo.width / 500, photo.height / 375
            )
            width, height = 500 * scale, 375 * scale
            left = random.uniform(0, photo.width - width)
            top = random.uniform(0, photo.height - height)
            cut = photo.resize(
                (500, 375),
                Image.Resampling.BICUBIC,
                box=(left, top, left + width, top + height),
            )
            target = folder / "train" / f"class_{number % 10}"
            target.mkdir(parents=True, exist_ok=True)
            cut.save(target / f"{number:02}_{part}.jpg", quality=90)


def ours(folder: Path, workers: int, randaugment: bool) -> Iterator:
    """Batches of this library."""
    steps = (RandAugment(2, 9, 0.0, 1.0),) if randaugment else ()
    transform = TrainTransform(
        (SIZE, SIZE), "random_resized", AREA, ASPECT, 0, 0.5, steps
    )
    return train_batches(
        open_source(str(folder), "train"),
        transform,
        seed=0,
        batch_size=BATCH,
        channels=3,
        start_step=0,
        workers=workers,
    )


def torchvision_pillow(folder: Path, workers: int, randaugment: bool) -> Iterator:
    """Batches of torch's DataLoader over torchvision's ImageFolder."""
    import torch
    from torchvision import datasets, transforms

    torch.set_num_threads(1)
    changes = [
        transforms.RandomResizedCrop(SIZE, AREA, ASPECT),
        transforms.RandomHorizontalFlip(),
    ]
    if randaugment:
        changes.append(transforms.RandAugment(2, 9))
    changes.append(transforms.PILToTensor())
    folders = datasets.ImageFolder(folder / "train", transforms.Compose(changes))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.ConcatDataset([folders] * COPIES),
        BATCH,
        shuffle=True,
        num_workers=workers,
        drop_last=True,
        prefetch_factor=2,
    )
    return (batch for _ in itertools.count() for batch in loader)


def measure(batches: Iterator, seconds: float) -> Result:
    """Images/s after 16 batches; peak memory of this process and its children."""
    for _ in range(16):
        next(batches)
    began, computed, count = time.perf_counter(), _cpu_seconds(), 0
    while time.perf_counter() - began < seconds:
        next(batches)
        count += BATCH
    elapsed, computed = time.perf_counter() - began, _cpu_seconds() - computed
    peak = sum(_peak_of(child) for child in _processes()) / 2**10
    batches.close()
    return Result(count / elapsed, count / computed, peak)


def decode_psnr(folder: Path) -> dict[str, float]:
    """Decibels between our crops and those that average over areas after decoding."""
    files = sorted((folder / "train").rglob("*.jpg"))[::4]
    found = {}
    for size in (SIZE, 96, 32):
        errors = []
        for file in files:
            picture = open_picture(file.read_bytes(), 3)
            box = (16, 32, 320, 448)  # whole pixels at each scale of decoding
            quick = sampled(picture, box, (size, size)).astype(float)
            full = resize(picture.pixels(), (size, size), box)
            errors.append(np.mean((quick - full) ** 2))
        found[f"{size}"] = float(10 * np.log10(255**2 / np.mean(errors)))
    return found


def single_steps(folder: Path) -> dict[str, float]:
    """Microseconds of this process for one image, decoder by decoder."""
    data = [file.read_bytes() for file in sorted((folder / "train").rglob("*.jpg"))]
    transform = TrainTransform((SIZE, SIZE), "random_resized", AREA, ASPECT, 0, 0.5, ())
    draws = uniform(0, np.arange(len(data)), transform.num_draws).tolist()
    calls: dict[str, Callable] = {
        "Pillow: decode": lambda d, _: np.asarray(Image.open(io.BytesIO(d))),
        "ours: whole transform": lambda d, r: transform(open_picture(d, 3), r),
    }
    import cv2
    import simplejpeg

    calls["OpenCV: decode"] = lambda d, _: cv2.imdecode(np.frombuffer(d, np.uint8), 1)
    calls["simplejpeg: decode"] = lambda d, _: simplejpeg.decode_jpeg(d)
    return {name: _best_time(call, data, draws) for name, call in calls.items()}


def _best_time(call: Callable, data: list[bytes], draws: list) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for image, row in zip(data, draws, strict=True):
            call(image, row)
        best = min(best, time.process_time() - began)
    return best / len(data) * 1e6


def _processes() -> dict[int, list[str]]:
    """This process and its children, with what /proc says of them."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if os.getpid() in (int(stat.parent.name), int(fields[1])):
            found[int(stat.parent.name)] = fields
    return found


def _cpu_seconds() -> float:
    ticks = sum(int(f[11]) + int(f[12]) for f in _processes().values())
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak_of(process: int) -> int:
    """Largest resident size so far, in kilobytes."""
    status = Path(f"/proc/{process}/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(lines.get("VmHWM", "0 kB").split()[0])


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="/tmp/vit_jax_photographs")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", nargs=2, help="one contender and a 1 for RandAugment")
    arguments = parser.parse_args()
    folder = Path(arguments.folder)
    if not folder.exists():
        write_photographs(folder)
    if arguments.case:
        contender, randaugment = CONTENDERS[arguments.case[0]], arguments.case[1] == "1"
        batches = contender(folder, arguments.workers[0], randaugment)
        print(json.dumps(dataclasses.asdict(measure(batches, arguments.seconds))))
        return
    report: dict = {}
    for _ in range(arguments.rounds):
        for workers, extra, name in itertools.product(
            arguments.workers, (0, 1), CONTENDERS
        ):
            # Each in a process of its own, so that none pays for another's memory.
            command = [sys.executable, __file__, "--folder", str(folder)]
            command += ["--workers", str(workers), "--seconds", str(arguments.seconds)]
            command += ["--case", name, str(extra)]
            output = subprocess.run(command, check=True, capture_output=True, text=True)
            result = json.loads(output.stdout.splitlines()[-1])
            title = f"{name}, {workers} workers{', RandAugment' * extra}"
            best = report.setdefault(title, result)
            for key in ("images_per_second", "images_per_cpu_second"):
                best[key] = max(best[key], result[key])
    report["microseconds of one image"] = single_steps(folder)
    report["PSNR of our crops by size"] = decode_psnr(folder)
    print(json.dumps(report, indent=2))


CONTENDERS = {"ours": ours, "torchvision_pillow": torchvision_pillow}

if __name__ == "__main__":
    main()
