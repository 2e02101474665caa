"""The journal of a run: `metrics.jsonl`, one JSON object a line."""

import json
import time
from typing import Any

from etils import epath

from vit_jax.workdir import disk_errors, is_store, replace, sync

_SECONDS_BETWEEN_UPLOADS = 30.0


class Journal:
    """`metrics.jsonl`: one JSON object a line, each step of a kind at most once.

    On a file system, a row is the system's when `write` returns, which outlives this
    process, and on disk after a `flush`. An object store has no appending: there the
    whole file is written anew, at most every 30 seconds and at each `flush`. So after a
    flush the journal is never behind a checkpoint that is saved next.

    Args:
      writes: False keeps the rows of the file, and new ones, in memory alone.
    """

    def __init__(self, file: epath.Path, *, writes: bool = True):
        self._file = file
        self._writes = writes
        self._rows = _read_rows(file)
        self._appends = not is_store(file)
        self._uploaded = time.monotonic()
        self._behind = False

    def cut(self, last_step: int) -> bool:
        """Forgets rows after `last_step`, and a last line that a kill left half.

        Returns whether there was any row to forget; what the file held is then kept
        beside it, with the ending `.before`.
        """
        kept = [row for row in self._rows if row["step"] <= last_step]
        forgets = len(kept) < len(self._rows)
        self._rows = kept
        if self._writes:
            with disk_errors(self._file):
                if forgets:
                    before = self._file.parent / f"{self._file.name}.before"
                    self._file.copy(before, overwrite=True)
                self._write_all()
        return forgets

    def write(self, row: dict[str, Any]) -> None:
        """Appends a row; it has at least the key "step".

        Raises:
          DiskFull: there is no room for it.
        """
        self._rows.append(row)
        if not self._writes:
            return
        self._behind = True
        if not self._appends:
            if time.monotonic() - self._uploaded > _SECONDS_BETWEEN_UPLOADS:
                self.flush()
            return
        with disk_errors(self._file), self._file.open("a") as stream:
            stream.write(_line(row))

    def flush(self) -> None:
        """Puts all rows where they outlive this machine's power."""
        if not self._behind:
            return
        with disk_errors(self._file):
            if self._appends:
                sync(self._file)
                self._behind = False
            else:
                self._write_all()

    def abandon(self) -> None:
        """Leaves the file as it is from here on: it is another run's."""
        self._writes = self._behind = False

    def last(self, key: str) -> dict[str, Any] | None:
        """The newest row that has `key`, or None."""
        return next((row for row in reversed(self._rows) if key in row), None)

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order of time."""
        return list(self._rows)

    def _write_all(self) -> None:
        text = "".join(_line(row) for row in self._rows)
        replace(self._file, text)
        self._uploaded = time.monotonic()
        self._behind = False


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _read_rows(file: epath.Path) -> list[dict[str, Any]]:
    """The rows of a journal; a half line at its end, left by a kill, is dropped.

    Raises:
      ValueError: another line is damaged.
    """
    if not file.exists():
        return []
    lines = file.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line.decode())
        except ValueError:
            row = None
        if not _is_row(row):
            raise ValueError(
                f"{file} is damaged in line {number}; it must be a JSON object with a "
                'whole number "step" and numbers for loss and eval/… figures. Mend the '
                "line or remove it, or move the file elsewhere."
            )
        rows.append(row)
    return rows


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict) or type(value.get("step")) is not int:
        return False
    figures = [v for k, v in value.items() if k == "loss" or k.startswith("eval/")]
    # null stands for a figure that was no number.
    return all(figure is None or type(figure) in (int, float) for figure in figures)
