"""Where figures go: journal, TensorBoard, progress bar; and how fast steps run."""

import json
import sys
import time
from typing import Any

from etils import epath
from tensorboardX import SummaryWriter
from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 10.0


class Journal:
    """`metrics.jsonl`: one JSON object a line, each step of a kind at most once.

    A row is on its way to disk when `write` returns, so that the journal is never
    behind a checkpoint that is saved after it.
    """

    def __init__(self, file: epath.Path):
        self._file = file
        self._rows = _read_rows(file)
        # Object stores have no appending: there, the whole file is written anew.
        self._appends = "://" not in str(file)

    def cut(self, last_step: int) -> bool:
        """Forgets rows after `last_step`, and a last line that a kill left half.

        Returns whether there was any row to forget; what the file held is then kept
        beside it, with the ending `.before`.
        """
        kept = [row for row in self._rows if row["step"] <= last_step]
        forgets = len(kept) < len(self._rows)
        if forgets:
            self._file.copy(
                self._file.parent / f"{self._file.name}.before", overwrite=True
            )
        self._rows = kept
        self._write_all()
        return forgets

    def write(self, row: dict[str, Any]) -> None:
        """Appends a row; it has at least the key "step"."""
        self._rows.append(row)
        if not self._appends:
            self._write_all()
            return
        with self._file.open("a") as stream:
            stream.write(_line(row))

    def last(self, key: str) -> dict[str, Any] | None:
        """The newest row that has `key`, or None."""
        return next((row for row in reversed(self._rows) if key in row), None)

    def _write_all(self) -> None:
        fresh = self._file.parent / f"{self._file.name}.tmp"
        fresh.write_text("".join(_line(row) for row in self._rows))
        fresh.replace(self._file)


class TensorBoard:
    """Scalars for TensorBoard; rows after a restart hide those that it repeats."""

    def __init__(self, folder: epath.Path, *, restart_step: int):
        self._writer = SummaryWriter(str(folder), purge_step=restart_step + 1)

    def write(self, row: dict[str, Any]) -> None:
        """Writes each number of `row` at its step."""
        for name, value in row.items():
            if name != "step" and isinstance(value, int | float):
                self._writer.add_scalar(name, value, row["step"])

    def flush(self) -> None:
        """Puts on disk what is buffered, so that a checkpoint lacks no figures."""
        self._writer.flush()

    def close(self) -> None:
        """Writes out what is buffered."""
        self._writer.close()


class Progress:
    """What a person sees on standard error: lines, and a bar from the first step on.

    Where standard error is no terminal, a line every few seconds stands for the bar.
    """

    def __init__(self, *, total: int, initial: int, enabled: bool):
        self._total = total
        self._initial = initial
        self._enabled = enabled
        self._bar = None

    def start(self) -> None:
        """Draws the bar and starts its clock."""
        self._bar = tqdm(
            total=self._total,
            initial=self._initial,
            disable=not self._enabled,
            file=sys.stderr if sys.stderr.isatty() else _Lines(),
            mininterval=0.1 if sys.stderr.isatty() else _SECONDS_BETWEEN_LINES,
            dynamic_ncols=sys.stderr.isatty(),
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
        if self._bar is None or not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
        else:
            self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


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
        """Starts measuring anew, as after a compilation, an evaluation or a report."""
        self._since = time.perf_counter()
        self._steps = 0
        self._waited = 0.0

    def step(self, waited: float) -> None:
        """Counts a step that waited so many seconds for its batch."""
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


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _read_rows(file: epath.Path) -> list[dict[str, Any]]:
    """The rows of a journal; a half line at its end, left by a kill, is dropped.

    Raises:
      ValueError: another line is damaged.
    """
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
            int(rows[-1]["step"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{file} is damaged in line {number}; it must be a JSON object with "
                '"step". Mend the line or remove it, or move the file elsewhere.'
            ) from error
    return rows
