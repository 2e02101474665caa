"""Work on numbered pieces in threads or processes, its results in order.

A process that decodes needs a start of its own, and an end with its parent.
"""

import contextlib
import ctypes
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import grain
from absl import flags

_AHEAD = 4
_MOST_THREADS = 8
# Shared memory would save a copy, but containers have 64 MB of it, and Grain leaves
# blocks to be cleaned up after the program ends.
_THROUGH_PIPES = grain.experimental.DatasetOptions(min_shm_size=2**62)
_NOTHING = object()
_GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PARENT_WATCH_SECONDS = 1.0
_GRACE_SECONDS = 30
# glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 2**28


def in_order(
    function: Callable[[int], Any], numbers: range, workers: int
) -> Iterator[Any]:
    """function(number) for each of `numbers`, in order, a few made ahead.

    It must be used up or closed, which ends the workers.

    Args:
      function: picklable where there are workers, which get one copy each.
      workers: processes that share the work; 0 does it in threads of this one.
    """
    results = _iterated(function, numbers, workers)
    try:
        # The first one starts threads, and these the workers.
        with signals_held():
            first = next(results, _NOTHING)
        if first is not _NOTHING:
            yield first
            yield from results
    finally:
        results.close()


def _iterated(
    function: Callable[[int], Any], numbers: range, workers: int
) -> grain.DatasetIterator:
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    results = (
        grain.MapDataset.range(numbers.start, numbers.stop)
        .map(function)
        .to_iter_dataset(
            grain.ReadOptions(
                num_threads=1 if workers else threads,
                prefetch_buffer_size=1 if workers else _AHEAD + threads,
            )
        )
    )
    if not workers:
        # The threads above have the cores; OpenCV's own would only stand in their way.
        cv2.setNumThreads(1)
        return iter(results)
    mark_flags_as_parsed()
    results = grain.experimental.WithOptionsIterDataset(results, _THROUGH_PIPES)
    return iter(
        results.mp_prefetch(
            grain.MultiprocessingOptions(
                num_workers=workers, per_worker_buffer_size=_AHEAD
            ),
            worker_init_fn=functools.partial(start_worker, os.getpid()),
        )
    )


def mark_flags_as_parsed() -> None:
    """Lets Grain start workers in a program that doesn't use absl's flags."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Workers started meanwhile get no SIGINT or SIGTERM before `start_worker` has said
    what these do; else a Ctrl-C would end one that is still importing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _GROUP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_worker(parent: int, worker: int, workers: int) -> None:
    """What a worker does first."""
    # A terminal's Ctrl-C and many a scheduler's SIGTERM reach the whole group; the
    # parent alone answers them, and ends its workers when it needs them no more. A
    # worker that it forgets ends by an alarm.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(_GRACE_SECONDS))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _GROUP_SIGNALS)
    _keep_freed_memory()
    # The other workers have the other cores.
    cv2.setNumThreads(1)
    _end_with_parent(parent)


def _keep_freed_memory() -> None:
    """Tells glibc to give freed arrays to the next ones and not to the system, whose
    fresh pages cost as much time as decoding. Other C libraries are left alone."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _end_with_parent(parent: int) -> None:
    """Makes this process end soon after its parent, even one that was killed.

    A thread looks at the parent's id, since a death signal would come with the end of
    the thread that started the worker rather than of the process.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
