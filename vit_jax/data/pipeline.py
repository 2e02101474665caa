"""From a source to batches, at any step, with or without worker processes."""

import functools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grain
import numpy as np
from absl import flags

from vit_jax.data.decode import Picture, UnreadableImage, open_picture
from vit_jax.data.randomness import shuffled, uniform
from vit_jax.data.sources import Source

Batch = dict[str, np.ndarray]
Transform = Callable[[Picture, list[float]], np.ndarray]

# What one worker hands over at a time: enough that the handing over costs nothing, few
# enough that a batch is made by all workers together and memory stays small.
_CHUNK_BYTES = 8 * 2**20
_CHUNKS_AHEAD = 4
_MOST_THREADS = 8
_PARENT_WATCH_SECONDS = 1.0
# Shared memory would save a copy, but containers have 64 MB of it, and Grain leaves
# blocks to be cleaned up after the program ends.
_THROUGH_PIPES = grain.experimental.DatasetOptions(min_shm_size=2**62)


def train_batches(
    source: Source,
    transform: Transform,
    *,
    seed: int,
    batch_size: int,
    channels: int,
    start_step: int,
    process_index: int = 0,
    process_count: int = 1,
    workers: int = 0,
    skip_bad: bool = False,
) -> Iterator[Batch]:
    """This process's part of the batches start_step, start_step + 1, …, without end.

    Batch k holds the positions k * batch_size .. (k + 1) * batch_size - 1 of a run over
    the source in which each epoch has an order of its own (`randomness.shuffled`), and
    position p is augmented by numbers drawn from (seed, p). So a batch is a function of
    (seed, step) alone, whatever the number of workers, processes or restarts.

    Args:
      source: the training examples.
      transform: (picture, draws) -> pixels of the model's size; `transform.num_draws`
        says how many draws it takes, `transform.image_size` the size.
      batch_size: examples over all processes; this process gets the contiguous part
        `process_index` of `process_count` equal ones.
      channels: 1 or 3.
      workers: processes that decode; 0 decodes in threads of this one.
      skip_bad: whether an unreadable image keeps its place with weight 0 rather than
        end the run.

    Yields:
      "image" uint8 [b, Y, X, channels], "label" int32 [b], "weight" float32 [b],
      "index" int64 [b], the position in the run.

    Raises:
      ValueError: batch_size is no multiple of process_count; an image is unreadable.
    """
    maker = _ChunkMaker(
        source=source,
        transform=transform,
        channels=channels,
        seed=seed,
        shuffle=True,
        skip_bad=skip_bad,
        parts=_Parts.of(batch_size, channels, transform, process_index, process_count),
    )
    return _batches(maker, range(start_step, 2**40), workers)


def eval_batches(
    source: Source,
    transform: Transform,
    *,
    batch_size: int,
    channels: int,
    process_index: int = 0,
    process_count: int = 1,
    workers: int = 0,
    skip_bad: bool = False,
) -> Iterator[Batch]:
    """This process's part of batches that hold every example once, in source order.

    Each process gets the same number of batches; what the last ones lack is filled with
    black images of weight 0. Arguments, batches and errors are those of
    `train_batches`; "index" is the number of the example.
    """
    maker = _ChunkMaker(
        source=source,
        transform=transform,
        channels=channels,
        seed=0,
        shuffle=False,
        skip_bad=skip_bad,
        parts=_Parts.of(batch_size, channels, transform, process_index, process_count),
    )
    return _batches(maker, range(math.ceil(len(source) / batch_size)), workers)


class _Parts:
    """Which positions each chunk of this process's batches holds."""

    def __init__(self, batch_size: int, first: int, count: int, chunks: int):
        self.batch_size = batch_size
        self.first = first
        self.count = count
        self.chunks = chunks

    @classmethod
    def of(
        cls,
        batch_size: int,
        channels: int,
        transform: Transform,
        process_index: int,
        process_count: int,
    ) -> "_Parts":
        if batch_size % process_count:
            raise ValueError(
                f"batch_size={batch_size} must be a multiple of the {process_count} "
                "processes."
            )
        count = batch_size // process_count
        chunk = max(1, _CHUNK_BYTES // (math.prod(transform.image_size) * channels))
        return cls(batch_size, process_index * count, count, math.ceil(count / chunk))

    def positions(self, number: int) -> np.ndarray:
        """Global positions of chunk `number`, counted over all batches."""
        step, chunk = divmod(number, self.chunks)
        low, high = (self.count * edge // self.chunks for edge in (chunk, chunk + 1))
        return step * self.batch_size + self.first + np.arange(low, high)


class _ChunkMaker:
    """Makes any chunk of any batch; a pure function that workers have a copy of."""

    def __init__(
        self,
        *,
        source: Source,
        transform: Transform,
        channels: int,
        seed: int,
        shuffle: bool,
        skip_bad: bool,
        parts: _Parts,
    ):
        self.parts = parts
        self._source = source
        self._transform = transform
        self._channels = channels
        self._seed = seed
        self._shuffle = shuffle
        self._skip_bad = skip_bad

    def __call__(self, number: int) -> Batch:
        """Chunk `number` of this process."""
        positions = self.parts.positions(number)
        size = len(positions)
        examples = self._examples(positions)
        draws = uniform(self._seed, positions, self._transform.num_draws).tolist()
        shape = (size, *self._transform.image_size, self._channels)
        images, labels = np.zeros(shape, np.uint8), np.zeros(size, np.int32)
        weights = np.zeros(size, np.float32)
        for slot, example in enumerate(examples.tolist()):
            if example >= len(self._source):
                continue
            image, labels[slot], name = self._source[example]
            try:
                picture = open_picture(image, self._channels)
                images[slot] = self._transform(picture, draws[slot])
            except UnreadableImage as error:
                if not self._skip_bad:
                    raise UnreadableImage(f"{name} is unreadable: {error}") from error
                continue
            weights[slot] = 1
        return {"image": images, "label": labels, "weight": weights, "index": positions}

    def _examples(self, positions: np.ndarray) -> np.ndarray:
        if not self._shuffle:
            return positions
        return shuffled(self._seed, positions, len(self._source))


def _batches(maker: _ChunkMaker, steps: range, workers: int) -> Iterator[Batch]:
    chunks_per_batch = maker.parts.chunks
    numbers = grain.MapDataset.range(
        steps.start * chunks_per_batch, steps.stop * chunks_per_batch
    )
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    chunks = numbers.map(maker).to_iter_dataset(
        grain.ReadOptions(
            num_threads=1 if workers else threads,
            prefetch_buffer_size=1 if workers else _CHUNKS_AHEAD + threads,
        )
    )
    if workers:
        _mark_flags_as_parsed()
        chunks = grain.experimental.WithOptionsIterDataset(chunks, _THROUGH_PIPES)
        chunks = chunks.mp_prefetch(
            grain.MultiprocessingOptions(
                num_workers=workers, per_worker_buffer_size=_CHUNKS_AHEAD
            ),
            worker_init_fn=functools.partial(_end_with_parent, os.getpid()),
        )
    return _assembled(iter(chunks), chunks_per_batch)


def _assembled(chunks: Any, chunks_per_batch: int) -> Iterator[Batch]:
    """Batches from chunks; ends the workers when it is closed or used up."""
    try:
        while True:
            parts = []
            for _ in range(chunks_per_batch):
                try:
                    parts.append(next(chunks))
                except StopIteration:
                    return
            yield _joined(parts)
    finally:
        chunks.close()


def _joined(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _mark_flags_as_parsed() -> None:
    """Lets Grain start workers in a program that doesn't use absl's flags."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


def _end_with_parent(parent: int, worker: int, workers: int) -> None:
    """Makes this worker end soon after its parent, even one that was killed.

    A thread looks at the parent's id, since a death signal would come with the end of
    the thread that started the worker rather than of the process.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
