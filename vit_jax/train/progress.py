"""What a person sees of a run, and how fast it goes."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """What a person sees on standard error: lines, and a bar from the first step on.

    Where standard error is no terminal, or one of no known width, a line every few
    seconds stands for the bar.
    """

    def __init__(self, *, total: int, enabled: bool):
        self._total = total
        self._enabled = enabled
        self._bar = None

    def start(self, step: int) -> None:
        """Draws the bar at `step`, in place of a former one, and starts its clock."""
        self.close()
        moves = _can_move()
        self._bar = tqdm(
            total=self._total,
            initial=step,
            disable=not self._enabled,
            file=sys.stderr if moves else _Lines(),
            mininterval=0.1 if moves else _SECONDS_BETWEEN_LINES,
            dynamic_ncols=moves,
            bar_format="training {percentage:3.0f}%|{bar:20}| "
            "{n_fmt}/{total_fmt} steps, {elapsed} passed, {remaining} left{postfix}",
        )

    def advance(self) -> None:
        """One step more."""
        self._bar.update()

    def show(self, row: dict[str, Any]) -> None:
        """Puts the newest figures beside the bar."""
        self._bar.set_postfix_str(
            f"loss {row['loss']:.4f}, lr {row['learning_rate']:.2e}, "
            f"{row['images_per_second']:,.0f} images/s",
            refresh=False,
        )

    def say(self, text: str) -> None:
        """A line of its own; above the bar where there is one."""
        if self._bar is None or not _can_move():
            print(text, file=sys.stderr, flush=True)
        else:
            self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _can_move() -> bool:
    """Whether standard error is a terminal of a known width, as a bar needs."""
    if not sys.stderr.isatty():
        return False
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except OSError:  # a stand-in for a terminal, which only says that it is one
        return True


class _Lines:
    """Standard error for a bar that can't move: each state of it is a line."""

    def write(self, text: str) -> None:
        text = text.strip()
        if text:
            print(text, file=sys.stderr, flush=True)

    def flush(self) -> None:
        sys.stderr.flush()


class Throughput:
    """Images per second of training alone: pauses and waits for data told apart."""

    def __init__(self, batch_size: int):
        self._batch_size = batch_size
        self._figures = {"images_per_second": 0.0, "data_wait_share": 0.0}
        self.restart()

    def restart(self) -> None:
        """Starts measuring anew, as after a compilation or a report."""
        self._since = time.perf_counter()
        self._steps = 0
        self._waited = 0.0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out the time that passes meanwhile."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._since += time.perf_counter() - began

    def step(self, waited: float) -> None:
        """Counts a step that is done, and waited so many seconds for its batch."""
        self._steps += 1
        self._waited += waited

    def report(self) -> dict[str, float]:
        """Figures since the last restart, and a restart; the last if no step ran."""
        if self._steps:
            elapsed = time.perf_counter() - self._since
            self._figures = {
                "images_per_second": self._batch_size * self._steps / elapsed,
                "data_wait_share": self._waited / elapsed,
            }
            self.restart()
        return dict(self._figures)
