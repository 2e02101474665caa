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

import jax
import numpy as np
from etils import epath
from jax.experimental import multihost_utils

from vit_jax.workdir import is_store

# A holder in an object store writes every minute that it lives; one that has been
# silent for five is taken for dead. Clocks of two machines may differ by less.
_BEAT_SECONDS = 60.0
_DEAD_SECONDS = 300.0
_SETTLE_SECONDS = 2.0


def hold_for_all(resources: contextlib.ExitStack, file: epath.Path) -> None:
    """Lets process 0 hold `file` for a run of several processes, until they are closed.

    Raises:
      ValueError: another run holds it; on all processes.
    """
    refusal = None
    if jax.process_index() == 0:
        try:
            resources.enter_context(held(file))
        except ValueError as error:
            refusal = error
    if jax.process_count() > 1 and multihost_utils.broadcast_one_to_all(
        np.int32(refusal is not None)
    ):
        refusal = refusal or ValueError(f"workdir {file.parent} is in use.")
    if refusal:
        raise refusal


@contextlib.contextmanager
def held(file: epath.Path) -> Iterator[None]:
    """A context in which no other run can hold `file`.

    On a file system it is a lock of the operating system, which ends with its process,
    however that ends. An object store and a few network file systems have none: there
    the file names its holder and the time, and counts for five minutes after the last
    time.

    Raises:
      ValueError: another run holds it.
    """
    with _locked(file) if _can_lock(file) else _named(file):
        yield


def _can_lock(file: epath.Path) -> bool:
    """Whether `file` lies where the operating system knows locks."""
    if is_store(file):
        return False
    try:
        with open(file, "a") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _locked(file: epath.Path) -> Iterator[None]:
    with open(file, "a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            raise ValueError(_refusal(file, stream.read())) from error
        _rewrite(stream, json.dumps(_holder()))
        try:
            yield
        finally:
            # Emptied, not removed: another run may have opened it already.
            _rewrite(stream, "")


def _rewrite(stream, text: str) -> None:
    stream.seek(0)
    stream.truncate()
    stream.write(text)
    stream.flush()


@contextlib.contextmanager
def _named(file: epath.Path) -> Iterator[None]:
    own = _holder() | {"id": uuid.uuid4().hex}
    text = file.read_text() if file.exists() else ""
    if _alive(text):
        raise ValueError(_refusal(file, text))
    _beat(file, own)
    # Of two that came at once, the one that wrote last stays.
    time.sleep(_SETTLE_SECONDS)
    text = file.read_text()
    if _read(text).get("id") != own["id"]:
        raise ValueError(_refusal(file, text))
    ended = threading.Event()
    beats = threading.Thread(target=_keep_beating, args=(file, own, ended), daemon=True)
    beats.start()
    try:
        yield
    finally:
        ended.set()
        beats.join()
        file.unlink(missing_ok=True)


def _keep_beating(file: epath.Path, own: dict, ended: threading.Event) -> None:
    while not ended.wait(_BEAT_SECONDS):
        # A write that the network loses is made up for by the next.
        with contextlib.suppress(Exception):
            _beat(file, own)


def _beat(file: epath.Path, own: dict) -> None:
    file.write_text(json.dumps(own | {"time": time.time()}))


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
