"""Any source to sharded ArrayRecord files, resumable and checked by re-reading."""

import dataclasses
import hashlib
import io
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Mapping

import grain
import numpy as np
from array_record.python import array_record_module
from etils import epath
from PIL import Image as pillow

from vit_jax.data.decode import UnreadableImage, as_image, decode
from vit_jax.data.records import (
    INDEX,
    pack,
    read_index,
    shard_name,
    write_whole,
)
from vit_jax.data.sources import Source

_JPEG_QUALITY = 95


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What happened: examples written now, found finished, and left out, with names."""

    written: int
    kept: int
    unreadable: tuple[str, ...]

    def __add__(self, other: "Prepared") -> "Prepared":
        return Prepared(
            self.written + other.written,
            self.kept + other.kept,
            self.unreadable + other.unreadable,
        )


def prepare(
    sources: Mapping[str, Source],
    folder: epath.Path,
    *,
    shard_size: int,
    shorter_side: int,
    progress: Callable[[Iterable[int], str], Iterable[int]],
) -> dict[str, Prepared]:
    """Writes each split of `sources` into `folder` as ArrayRecord; see `records`.

    A shard is written under another name, read back, compared, and renamed, so the same
    call goes on where a killed one stopped. Image files are stored as they are; pixels
    become PNG.

    Args:
      sources: split -> its examples, all with the class names of the first.
      shard_size: examples of a shard.
      shorter_side: an image whose shorter side is longer is shrunk to it and stored as
        JPEG of quality 95; 0 shrinks none.
      progress: wraps the numbers of a split's shards, given the split's name.

    Raises:
      ValueError: the folder holds a set made otherwise, or what was read back differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"shard_size": shard_size, "shorter_side": shorter_side}
    class_names = list(next(iter(sources.values())).class_names)
    _claim(folder, settings | {"class_names": class_names})
    for split, source in sources.items():
        _claim_split(folder, split, source)
    outcomes = {}
    for split, source in sources.items():
        shards = max(1, math.ceil(len(source) / shard_size))
        outcome = Prepared(0, 0, ())
        for number in progress(range(shards), split):
            examples = range(
                number * shard_size, min((number + 1) * shard_size, len(source))
            )
            file = folder / shard_name(split, number, shards)
            done = _shard(file, source, examples, shorter_side)
            outcome = outcome + done
        outcomes[split] = outcome
        _finish(folder, split, source, shards)
    return outcomes


def _claim(folder: epath.Path, settings: dict) -> None:
    """Starts dataset.json, or proves that the one there has the same settings.

    Raises:
      ValueError: it was not.
    """
    index = read_index(folder)
    if not index["class_names"]:
        write_whole(folder / INDEX, json.dumps({"splits": {}} | settings).encode())
        return
    differing = [key for key, value in settings.items() if index[key] != value]
    if differing:
        raise ValueError(
            f"{folder} holds a set prepared with other {', '.join(differing)}; prepare "
            "into another folder."
        )


def _claim_split(folder: epath.Path, split: str, source: Source) -> None:
    """Notes what a split is made of, or proves that it is still the same.

    Raises:
      ValueError: the source has other examples than when the split was begun.
    """
    note, text = folder / f"{split}.source", _fingerprint(source)
    if not note.exists():
        write_whole(note, text.encode())
    elif note.read_text() != text:
        raise ValueError(
            f"the source of split {split} has changed since {folder} was begun; "
            "prepare into another folder."
        )


def _fingerprint(source: Source) -> str:
    """Text that changes with the names, labels or number of a source's examples."""
    digest = hashlib.blake2b(source.labels().tobytes(), digest_size=16)
    for index in range(len(source)):
        digest.update(os.fsencode(source.name(index)) + b"\0")
    return digest.hexdigest()


def _shard(
    file: epath.Path, source: Source, examples: range, shorter_side: int
) -> Prepared:
    """Writes one shard unless it is there."""
    if file.exists():
        return Prepared(0, len(examples), ())
    fresh = file.parent / f"{file.name}.{uuid.uuid4().hex}.tmp"
    writer = array_record_module.ArrayRecordWriter(str(fresh), "group_size:1")
    digests, unreadable = [], []
    for example in examples:
        image, label, name = source[example]
        try:
            data = stored_bytes(image, shorter_side)
        except UnreadableImage:
            # Kept as it is: data.bad_images decides when it is read.
            data = image
            unreadable.append(name)
        record = pack(data, label, name)
        digests.append(hashlib.blake2b(record).digest())
        writer.write(record)
    writer.close()
    _compare(fresh, digests)
    fresh.replace(file)
    return Prepared(len(examples), 0, tuple(unreadable))


def stored_bytes(image: bytes | np.ndarray, shorter_side: int) -> bytes:
    """The image file that is stored for an image; see `prepare`.

    Raises:
      UnreadableImage: it must be shrunk and can't be decoded.
    """
    if not isinstance(image, bytes):
        channels = 1 if image.ndim == 2 else image.shape[-1]
        image = _encoded(decode(image, channels), "PNG")
    if not shorter_side:
        return image
    pixels = decode(image, 3)
    scale = shorter_side / min(pixels.shape[:2])
    if scale >= 1:
        return image
    rows, columns = (round(side * scale) for side in pixels.shape[:2])
    shrunk = as_image(pixels).resize((columns, rows), pillow.Resampling.BICUBIC)
    return _encoded(np.asarray(shrunk), "JPEG")


def _encoded(pixels: np.ndarray, kind: str) -> bytes:
    file = io.BytesIO()
    as_image(pixels).save(file, kind, quality=_JPEG_QUALITY)
    return file.getvalue()


def _compare(file: epath.Path, digests: list[bytes]) -> None:
    """Reads a shard back.

    Raises:
      ValueError: it does not hold what was written.
    """
    records = grain.sources.ArrayRecordDataSource([str(file)])
    same = len(records) == len(digests) and all(
        hashlib.blake2b(records[number]).digest() == digest
        for number, digest in enumerate(digests)
    )
    if not same:
        file.unlink()
        raise ValueError(f"{file} differs from what was written; check the disk.")


def _finish(folder: epath.Path, split: str, source: Source, shards: int) -> None:
    """Writes a split's labels, and then enters it in dataset.json."""
    labels = io.BytesIO()
    np.save(labels, source.labels())
    write_whole(folder / f"{split}.labels.npy", labels.getvalue())
    index = read_index(folder)
    index["splits"][split] = {"examples": len(source), "shards": shards}
    write_whole(folder / INDEX, json.dumps(index, indent=1).encode())
