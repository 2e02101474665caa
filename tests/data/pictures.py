"""Small images for the tests of this folder."""

import io
from pathlib import Path

import numpy as np
from PIL import Image


def smooth_pixels(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """uint8 [rows, columns, 3] without sharp edges, as photographs have few."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    picture = Image.fromarray(coarse).resize((columns, rows), Image.Resampling.BICUBIC)
    return np.asarray(picture)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    """The image as a file of that kind."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def write_folder(root: Path, counts: dict[str, int], kind: str = "png") -> Path:
    """A folder root/CLASS/N.kind with that many images of each class."""
    for number, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            pixels = smooth_pixels(12, 16, seed=100 * number + index)
            Image.fromarray(pixels).save(root / name / f"{index:03}.{kind}")
    return root
