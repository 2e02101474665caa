"""Where figures are written: the journal, and TensorBoard's files."""

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from etils import epath
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import scalar

from vit_jax.train.journal import Journal
from vit_jax.workdir import Workdir, disk_errors, is_store


class Metrics:
    """The figures of a run; all processes know them, process 0 writes them.

    So all decide alike what is evaluated and what is the best.

    Args:
      tensorboard: whether TensorBoard's files are written beside the journal.
      writes: whether this process is the one that writes.
      lost: whether the workdir is another run's by now; then nothing more is written.
    """

    def __init__(
        self,
        workdir: Workdir,
        *,
        tensorboard: bool,
        writes: bool,
        lost: Callable[[], bool] = lambda: False,
    ):
        self._journal = Journal(workdir.metrics, writes=writes)
        self._folder = workdir.tensorboard if tensorboard else None
        self._writes = writes
        self._lost = lost
        self._tensorboard: TensorBoard | None = None

    def start(self, step: int) -> bool:
        """Forgets what was written after `step`; returns whether there was any."""
        forgets = self._journal.cut(step)
        if self._folder is not None and self._writes:
            self._tensorboard = TensorBoard(self._folder, restart_step=step)
        return forgets

    def write(self, row: dict[str, Any]) -> None:
        """Writes a row of figures; it has at least the key "step"."""
        self._leave_if_lost()
        self._journal.write(row)
        if self._tensorboard:
            self._tensorboard.write(row)

    def last(self, key: str) -> dict[str, Any] | None:
        """The newest row that has `key`, or None."""
        return self._journal.last(key)

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, by time."""
        return self._journal.rows()

    def flush(self) -> None:
        """Puts on disk what is buffered, so that a checkpoint lacks no figures."""
        self._leave_if_lost()
        self._journal.flush()
        if self._tensorboard:
            self._tensorboard.flush()

    def close(self) -> None:
        """Writes out what is buffered."""
        self._leave_if_lost()
        self._journal.flush()
        if self._tensorboard:
            self._tensorboard.close()

    def _leave_if_lost(self) -> None:
        if not self._lost():
            return
        self._journal.abandon()
        if self._tensorboard:
            self._tensorboard.abandon()
            self._tensorboard = None


class TensorBoard:
    """Scalars for TensorBoard; rows after a restart hide those that it repeats.

    Written by the calling thread: tensorboardX's own writer has a thread that a full
    disk ends unseen, after which every call waits for ever. For an object store the
    file grows in a temporary folder and is copied at each flush.
    """

    def __init__(self, folder: epath.Path, *, restart_step: int):
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}"
        self._file = folder / f"{name}.{os.getpid()}"
        self._temporary = tempfile.TemporaryDirectory() if is_store(folder) else None
        local = Path(self._temporary.name) if self._temporary else Path(folder)
        self._local = local / self._file.name
        with disk_errors(self._file):
            local.mkdir(parents=True, exist_ok=True)
            self._writer = RecordWriter(str(self._local))
            self._add(step=0, file_version="brain.Event:2")
            restart = SessionLog(status=SessionLog.START)
            self._add(step=restart_step + 1, session_log=restart)

    def write(self, row: dict[str, Any]) -> None:
        """Writes each number of `row` at its step."""
        with disk_errors(self._file):
            for name, value in row.items():
                if name != "step" and isinstance(value, int | float):
                    self._add(step=row["step"], summary=scalar(name, value))

    def flush(self) -> None:
        """Puts on disk what is buffered."""
        with disk_errors(self._file):
            self._writer.flush()
            if self._temporary:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.write_bytes(self._local.read_bytes())

    def close(self) -> None:
        """Writes out what is buffered."""
        with disk_errors(self._file), contextlib.ExitStack() as resources:
            if self._temporary:
                resources.callback(self._temporary.cleanup)
            # A full disk makes the flush fail, and then the closing too.
            resources.callback(self._writer.close)
            self.flush()

    def abandon(self) -> None:
        """Closes without copying anything into the workdir."""
        if self._temporary:
            self._writer.close()
            self._temporary.cleanup()

    def _add(self, **fields: Any) -> None:
        event = Event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())
