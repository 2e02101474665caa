"""From a source to batches, at any step, with or without worker processes."""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from vit_jax.data.decode import Picture, UnreadableImage, open_picture
from vit_jax.data.randomness import shuffled, uniform
from vit_jax.data.sources import Source
from vit_jax.data.workers import in_order

Batch = dict[str, np.ndarray]
Transform = Callable[[Picture, list[float]], np.ndarray]

# What one worker hands over at a time: enough that the handing over costs nothing, few
# enough that a batch is made by all workers together and memory stays small.
_CHUNK_BYTES = 8 * 2**20
# Starting workers takes as long as decoding about so many images in threads.
_WORKERS_FROM = 2000
# More steps than any run has.
_LAST_STEP = 2**40


def train_batches(
    source: Source,
    transform: Transform,
    *,
    seed: int,
    batch_size: int,
    channels: int,
    start_step: int,
    first_position: int = 0,
    process_index: int = 0,
    process_count: int = 1,
    workers: int = 0,
    on_bad: Callable[[str], None] | None = None,
    repeats: int = 1,
) -> Iterator[Batch]:
    """This process's part of the batches start_step, start_step + 1, …, without end.

    Batch k holds the batch_size positions from first_position + k * batch_size on of a
    run over the source in which each epoch has an order of its own
    (`randomness.shuffled`), and position p is augmented by numbers drawn from (seed,
    p). So a batch is a function of (seed, step) alone, whatever the number of workers,
    processes or restarts.

    Args:
      source: the training examples.
      transform: (picture, draws) -> pixels of the model's size; `transform.num_draws`
        says how many draws it takes, `transform.image_size` the size.
      first_position: of batch 0; above 0 where other batches came before.
      batch_size: examples over all processes; this process gets the contiguous part
        `process_index` of `process_count` equal ones.
      channels: 1 or 3.
      workers: processes that decode; 0 decodes in threads of this one.
      on_bad: called with the name of each unreadable image, which keeps its place in
        the batch, black and with weight 0; None ends the run instead.
      repeats: how often an epoch holds each of its examples; see `shuffled`.

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
        repeats=repeats,
        skip_bad=on_bad is not None,
        parts=_Parts.of(
            batch_size,
            channels,
            transform,
            process_index,
            process_count,
            first_position,
        ),
    )
    return _batches(maker, range(start_step, _LAST_STEP), workers, on_bad)


def eval_batches(
    source: Source,
    transform: Transform,
    *,
    batch_size: int,
    channels: int,
    process_index: int = 0,
    process_count: int = 1,
    workers: int = 0,
    on_bad: Callable[[str], None] | None = None,
) -> Iterator[Batch]:
    """This process's part of batches that hold every example once, in source order.

    Small sets are read without workers, whose start would take longer. Each process
    gets the same number of batches; what the last ones lack is filled with black images
    of weight 0. Arguments, batches and errors are those of `train_batches`; "index" is
    the number of the example.
    """
    maker = _ChunkMaker(
        source=source,
        transform=transform,
        channels=channels,
        seed=0,
        repeats=0,
        skip_bad=on_bad is not None,
        parts=_Parts.of(batch_size, channels, transform, process_index, process_count),
    )
    workers = workers if len(source) >= _WORKERS_FROM else 0
    return _batches(maker, range(math.ceil(len(source) / batch_size)), workers, on_bad)


class _Parts:
    """Which positions each chunk of this process's batches holds."""

    def __init__(self, batch_size: int, first: int, count: int, chunks: int):
        """`first` is this process's first position of batch 0, of `count` a batch."""
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
        first_position: int = 0,
    ) -> "_Parts":
        if batch_size % process_count:
            raise ValueError(
                f"batch_size={batch_size} must be a multiple of the {process_count} "
                "processes."
            )
        count = batch_size // process_count
        chunk = max(1, _CHUNK_BYTES // (math.prod(transform.image_size) * channels))
        first = first_position + process_index * count
        return cls(batch_size, first, count, math.ceil(count / chunk))

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
        repeats: int,
        skip_bad: bool,
        parts: _Parts,
    ):
        self.parts = parts
        self.source = source
        self._transform = transform
        self._channels = channels
        self._seed = seed
        self._repeats = repeats
        self._skip_bad = skip_bad

    def __call__(self, number: int) -> Batch:
        """Chunk `number` of this process."""
        positions = self.parts.positions(number)
        size = len(positions)
        examples = self.examples(positions)
        draws = uniform(self._seed, positions, self._transform.num_draws).tolist()
        shape = (size, *self._transform.image_size, self._channels)
        images, labels = np.zeros(shape, np.uint8), np.zeros(size, np.int32)
        weights = np.zeros(size, np.float32)
        for slot, example in enumerate(examples.tolist()):
            if example >= len(self.source):
                continue
            try:
                image, labels[slot], _ = self.source[example]
                picture = open_picture(image, self._channels)
                images[slot] = self._transform(picture, draws[slot])
            except (UnreadableImage, OSError) as error:
                # Missing and locked files are as unreadable as damaged ones.
                if not self._skip_bad:
                    name = self.source.name(example)
                    raise UnreadableImage(f"{name} is unreadable: {error}") from error
                continue
            weights[slot] = 1
        return {"image": images, "label": labels, "weight": weights, "index": positions}

    def examples(self, positions: np.ndarray) -> np.ndarray:
        """Which example of the source stands at each position; without repeats the
        order is the source's."""
        if not self._repeats:
            return positions
        return shuffled(self._seed, positions, len(self.source), self._repeats)


def _batches(
    maker: _ChunkMaker,
    steps: range,
    workers: int,
    on_bad: Callable[[str], None] | None,
) -> Iterator[Batch]:
    chunks_per_batch = maker.parts.chunks
    numbers = range(steps.start * chunks_per_batch, steps.stop * chunks_per_batch)
    batches = _assembled(in_order(maker, numbers, workers), chunks_per_batch)
    return batches if on_bad is None else _reported(batches, maker, on_bad)


def _assembled(chunks: Iterator[Batch], chunks_per_batch: int) -> Iterator[Batch]:
    """Batches from chunks; ends the workers when it is closed or used up."""
    with contextlib.closing(chunks):
        for first in chunks:
            rest = itertools.islice(chunks, chunks_per_batch - 1)
            yield _joined([first, *rest])


def _reported(
    batches: Iterator[Batch], maker: _ChunkMaker, on_bad: Callable[[str], None]
) -> Iterator[Batch]:
    """The same batches; names of images without weight go to `on_bad`."""
    with contextlib.closing(batches):
        for batch in batches:
            for example in maker.examples(batch["index"][batch["weight"] == 0]):
                if example < len(maker.source):
                    on_bad(maker.source.name(int(example)))
            yield batch


def _joined(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
