"""Any source to sharded ArrayRecord files, resumable and checked by re-reading."""

import contextlib
import dataclasses
import hashlib
import io
import itertools
import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

import grain
import numpy as np
from array_record.python import array_record_module
from etils import epath

from vit_jax.data.encode import Encoder, Records
from vit_jax.data.fingerprint import fingerprint
from vit_jax.data.records import (
    INDEX,
    count_records,
    read_index,
    shard_name,
    write_whole,
)
from vit_jax.data.sources import Source
from vit_jax.data.workers import in_order

# Examples that a worker hands over at a time.
_CHUNK = 16


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What happened: examples written now and found finished, and the names of all
    images, of either kind, that can't be decoded."""

    written: int
    kept: int
    unreadable: tuple[str, ...]


def prepare(
    sources: Mapping[str, Source],
    folder: epath.Path,
    *,
    shard_size: int,
    shorter_side: int,
    progress: Callable[[str, int, int], Callable[[int], None]],
    workers: int = 0,
) -> dict[str, Prepared]:
    """Writes each split of `sources` into `folder` as ArrayRecord; see `records`.

    A shard is written under another name, read back, compared, and renamed, so the same
    call goes on where a killed one stopped. Image files are stored as they are; pixels
    become PNG. Every image is decoded, so that those that can't be are known.

    Args:
      sources: split -> its examples, all with the class names of the first.
      shard_size: examples of a shard.
      shorter_side: an image whose shorter side is longer is shrunk to it and stored as
        JPEG of quality 95; 0 shrinks none.
      progress: called with a split's name, its number of examples and how many were
        there already; what it returns is then called with how many more are done.
      workers: processes that read and decode; 0 does it in threads of this one.

    Raises:
      ValueError: the folder holds a set made otherwise, a file is not there or can't be
        opened, or what was read back differs.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder to prepare into.")
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"shard_size": shard_size, "shorter_side": shorter_side}
    class_names = list(next(iter(sources.values())).class_names)
    _claim(folder, settings | {"class_names": class_names})
    for split, source in sources.items():
        _claim_split(folder, split, source)
    outcomes = {}
    for split, source in sources.items():
        shards = _shards(folder, split, len(source), shard_size)
        missing = {f: part for f, part in shards.items() if not _is_whole(f, part)}
        written = sum(map(len, missing.values()))
        tick = progress(split, len(source), len(source) - written)
        encode = Encoder(source, shorter_side, tuple(_chunks(missing.values())))
        _write_shards(missing, encode, workers, tick)
        unreadable = _unreadable(folder, split)
        outcomes[split] = Prepared(
            written,
            len(source) - written,
            tuple(name for file in shards for name in unreadable.get(file.name, ())),
        )
        _finish(folder, split, source, len(shards))
    return outcomes


def _shards(
    folder: epath.Path, split: str, size: int, shard_size: int
) -> dict[epath.Path, range]:
    """File -> its examples, of each shard; what a killed call left behind goes."""
    for stale in folder.glob(f"{split}-*.tmp"):
        stale.unlink()
    count = max(1, math.ceil(size / shard_size))
    return {
        folder / shard_name(split, number, count): range(
            number * shard_size, min((number + 1) * shard_size, size)
        )
        for number in range(count)
    }


def _is_whole(file: epath.Path, part: range) -> bool:
    """Whether a shard holds its examples; a damaged one is to be written anew."""
    try:
        return file.exists() and count_records(file) == len(part)
    except ValueError:
        return False


def _chunks(parts: Iterable[range]) -> Iterator[range]:
    """The same examples in pieces that a worker hands over at a time."""
    for part in parts:
        for start in range(part.start, part.stop, _CHUNK):
            yield range(start, min(start + _CHUNK, part.stop))


def _write_shards(
    shards: Mapping[epath.Path, range],
    encode: Encoder,
    workers: int,
    tick: Callable[[int], None],
) -> None:
    """Writes shards whose chunks, one after the other, are those of `encode`."""
    made = in_order(encode, range(len(encode.chunks)), workers)
    with contextlib.closing(made):
        for file, part in shards.items():
            _write_shard(file, itertools.islice(made, len(list(_chunks([part])))), tick)


def _write_shard(
    file: epath.Path, chunks: Iterable[Records], tick: Callable[[int], None]
) -> None:
    fresh = file.parent / f"{file.name}.{uuid.uuid4().hex}.tmp"
    digests, unreadable = [], []
    try:
        writer = array_record_module.ArrayRecordWriter(str(fresh), "group_size:1")
        for chunk in chunks:
            for record in chunk.records:
                digests.append(hashlib.blake2b(record).digest())
                writer.write(record)
            unreadable += chunk.unreadable
            tick(len(chunk.records))
        writer.close()
        _compare(fresh, digests)
        _note_unreadable(file, unreadable)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def _unreadable(folder: epath.Path, split: str) -> dict[str, list[str]]:
    """Shard -> names of its images that can't be decoded."""
    note = folder / f"{split}.unreadable.json"
    return json.loads(note.read_text()) if note.exists() else {}


def _note_unreadable(file: epath.Path, names: list[str]) -> None:
    """Keeps the names for later calls, which find the shard finished."""
    split = file.name.rsplit("-of-", 1)[0].rsplit("-", 1)[0]
    before = _unreadable(file.parent, split)
    after = {name: found for name, found in before.items() if name != file.name}
    if names:
        after[file.name] = names
    if after != before:
        note = file.parent / f"{split}.unreadable.json"
        write_whole(note, json.dumps(after, indent=1).encode())


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
    note, text = folder / f"{split}.source", fingerprint(source)
    if not note.exists():
        write_whole(note, text.encode())
    elif note.read_text() != text:
        raise ValueError(
            f"the source of split {split} has changed since {folder} was begun; "
            "prepare into another folder."
        )


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
        raise ValueError(f"{file} differs from what was written; check the disk.")


def _finish(folder: epath.Path, split: str, source: Source, shards: int) -> None:
    """Writes a split's labels, and then enters it in dataset.json."""
    labels = io.BytesIO()
    np.save(labels, source.labels())
    write_whole(folder / f"{split}.labels.npy", labels.getvalue())
    index = read_index(folder)
    index["splits"][split] = {"examples": len(source), "shards": shards}
    write_whole(folder / INDEX, json.dumps(index, indent=1).encode())
