"""One run at a time in a workdir; readers are never refused."""

import contextlib
import datetime
import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import IO

from etils import epath

from vit_jax import processes
from vit_jax.train.conditional import (
    ConditionalFile,
    PlainFile,
    Version,
    open_conditional,
)
from vit_jax.workdir import is_store

# A holder in an object store writes every minute that it lives; one that has been
# silent for five is taken for dead. Clocks of two machines may differ by less.
_BEAT_SECONDS = 60.0
_DEAD_SECONDS = 300.0
_SETTLE_SECONDS = 2.0
# Of a write, each after another look at the file.
_TRIES = 3


class LockLost(RuntimeError):
    """Another run has taken the workdir over."""


class Hold:
    """A held lock file.

    Attributes:
      lost_to: what the file says of another run that has taken it over, else "".
    """

    def __init__(self, file: epath.Path):
        self._file = file
        self._locked: IO[str] | None = None
        self.lost_to = ""

    def lock(self) -> None:
        """Takes the operating system's lock, which ends with this process.

        Raises:
          ValueError: another run has it.
        """
        # Open as long as it is locked: closing it would unlock it.
        stream = open(self._file, "a+")  # noqa: SIM115
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            with stream:
                stream.seek(0)
                raise ValueError(_refusal(self._file, stream.read())) from error
        _rewrite(stream, json.dumps(_holder()))
        self._locked = stream

    def unlock(self) -> None:
        """Gives that lock up; only of a file that is held."""
        # Emptied, not removed: another run may have opened it already.
        with self._locked:
            _rewrite(self._locked, "")

    def look(self) -> str:
        """`lost_to`, after a look whether the locked file is still the one in the
        workdir: where somebody removed it, another run may lock a new one.

        A file that is merely gone is made anew.
        """
        if self.lost_to or self._locked is None:
            return self.lost_to
        try:
            if os.path.samestat(os.stat(self._file), os.fstat(self._locked.fileno())):
                return ""
            self.lost_to = self._file.read_text() or "{}"
        except FileNotFoundError:
            self._make_anew()
        except OSError:
            # Storage that can't be reached says nothing of another run.
            return ""
        return self.lost_to

    def _make_anew(self) -> None:
        try:
            # As in `lock`.
            stream = open(self._file, "x+")  # noqa: SIM115
        except FileExistsError:
            self.lost_to = "{}"
            return
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            self.lost_to = "{}"
            return
        _rewrite(stream, json.dumps(_holder()))
        self._locked.close()
        self._locked = stream

    def error(self) -> LockLost:
        """What to raise where a run must end because its lock is lost."""
        return LockLost(
            f"{_refusal(self._file, self.lost_to)} This run has lost its lock, as when "
            "it stood still or could not reach the storage for minutes, or somebody "
            f"removed {self._file.name}; it ends without saving."
        )


def hold_for_all(resources: contextlib.ExitStack, file: epath.Path) -> Hold:
    """Lets process 0 hold `file` for a run of several processes, until they are closed.

    Raises:
      ValueError: another run holds it; on all processes.
    """
    holds: list[Hold] = []
    processes.lead(
        lambda: holds.append(resources.enter_context(held(file))),
        f"workdir {file.parent} can't be had: it is in use, or process 0 failed.",
    )
    return holds[0] if holds else Hold(file)


@contextlib.contextmanager
def held(file: epath.Path) -> Iterator[Hold]:
    """A context in which no other run can hold `file`.

    On a file system it is a lock of the operating system, which ends with its process,
    however that ends. An object store and a few network file systems have none: there
    the file names its holder and the time, and counts for five minutes after the last
    time. On gs:// each write holds only where no other came in between.

    Raises:
      ValueError: another run holds it.
    """
    hold = Hold(file)
    with _locked(hold) if _can_lock(file) else _named(file, hold):
        yield hold


def _can_lock(file: epath.Path) -> bool:
    """Whether `file` lies where the operating system knows locks."""
    if is_store(file):
        return False
    try:
        # NFS wants a file open for reading for this kind of lock.
        with open(file, "a+") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _locked(hold: Hold) -> Iterator[None]:
    hold.lock()
    try:
        yield
    finally:
        hold.unlock()


def _rewrite(stream, text: str) -> None:
    stream.seek(0)
    stream.truncate()
    stream.write(text)
    stream.flush()


@contextlib.contextmanager
def _named(file: epath.Path, hold: Hold) -> Iterator[None]:
    own = _holder() | {"id": uuid.uuid4().hex}
    place = open_conditional(file)
    before = place.read()
    if _alive(before.text):
        raise ValueError(_refusal(file, before.text))
    began = time.monotonic()
    beat = _Beat(place, own, before)
    lost_to = beat()
    if not place.exact:
        # Of two that came at once, the one that wrote last stays. A slow write may have
        # covered the name of one that looked before it; that one sees so at its next
        # beat, and is given the time to.
        time.sleep(max(_SETTLE_SECONDS, 2 * (time.monotonic() - began)))
        lost_to = lost_to or beat()
    if lost_to:
        raise ValueError(_refusal(file, lost_to))
    ended = threading.Event()
    beats = threading.Thread(
        target=_keep_beating, args=(beat, ended, hold), daemon=True
    )
    beats.start()
    try:
        yield
    finally:
        ended.set()
        beats.join()
        if not hold.lost_to:
            beat.end()


class _Beat:
    """Says that a holder lives, unless another's name is in the file.

    Args:
      own: the holder, with an id.
      before: the version of the file that it takes over.
    """

    def __init__(self, place: ConditionalFile | PlainFile, own: dict, before: Version):
        self._place = place
        self._own = own
        self._last = before

    def __call__(self) -> str:
        """Writes the file anew; what it says of another holder instead, else ""."""
        return self._write(json.dumps(self._own | {"time": time.time()}))

    def end(self) -> None:
        """Removes the file unless it is another's."""
        self._write(None)

    def _write(self, text: str | None) -> str:
        for _ in range(_TRIES):
            written = self._place.write(text, self._last)
            if written is not None:
                self._last = written
                return ""
            # It was removed, cut off, or it is this holder's own, of a write that
            # succeeded without saying so; or it is another's.
            self._last = self._place.read()
            if _is_of_other(self._last.text, self._own):
                return self._last.text
        return ""


def _keep_beating(beat: _Beat, ended: threading.Event, hold: Hold) -> None:
    """Says that the holder lives, until it ends or another's name is in the file."""
    wait = min(_SETTLE_SECONDS, _BEAT_SECONDS)
    while not ended.wait(wait):
        # Soon at first, when others may have come at the same time.
        wait = min(2 * wait + 0.01, _BEAT_SECONDS)
        # What the network loses is made up for by the next beat.
        with contextlib.suppress(Exception):
            hold.lost_to = beat()
            if hold.lost_to:
                return


def _is_of_other(text: str, own: dict) -> bool:
    """Whether a file's text names another holder; one that is cut off names nobody."""
    return _read(text).get("id", own["id"]) != own["id"]


def _alive(text: str) -> bool:
    return time.time() - _read(text).get("time", 0) < _DEAD_SECONDS


def _holder() -> dict:
    now = datetime.datetime.now().astimezone()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": now.isoformat(timespec="seconds"),
    }


def _read(text: str) -> dict:
    """What a lock file says; {} where its holder was cut off while writing it."""
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _refusal(file: epath.Path, text: str) -> str:
    holder = _read(text)
    who = (
        f"process {holder['pid']} on {holder['host']} (since {holder['since']})"
        if {"pid", "host", "since"} <= holder.keys()
        else "another process"
    )
    way_out = (
        f"Stop it or wait for its end; if it was killed, wait {_DEAD_SECONDS / 60:.0f} "
        f"minutes or remove {file}."
        if "time" in holder
        else "Stop it or wait for its end, or name another workdir."
    )
    return f"workdir {file.parent} is in use: {who} trains there. {way_out}"
