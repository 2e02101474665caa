"""One run at a time in a workdir."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys

import pytest
from etils import epath

from vit_jax.train import lock

HOLD = """
import sys, time
from etils import epath
from vit_jax.train.lock import held
with held(epath.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_with_the_holder_named_until_the_first_ends(tmp_path):
    file = epath.Path(tmp_path / "run.lock")
    with lock.held(file):
        with pytest.raises(ValueError, match=rf"process {os.getpid()} on .* trains"):
            lock.hold_for_all(contextlib.ExitStack(), file)
        assert json.loads(file.read_text())["pid"] == os.getpid()
    assert file.read_text() == ""
    with lock.held(file):
        pass


def test_a_killed_holder_leaves_no_lock_behind(tmp_path):
    file = tmp_path / "run.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with (
        pytest.raises(ValueError, match=f"process {holder.pid} on"),
        lock.held(epath.Path(file)),
    ):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with lock.held(epath.Path(file)):
        assert json.loads(file.read_text())["pid"] == os.getpid()


def test_a_holder_that_wrote_nothing_yet_is_refused_all_the_same(tmp_path):
    file = epath.Path(tmp_path / "run.lock")
    with lock.held(file):
        file.write_text("")
        with pytest.raises(ValueError, match="another process trains there"):
            lock.hold_for_all(contextlib.ExitStack(), file)


@pytest.fixture
def in_store(object_store, monkeypatch):
    monkeypatch.setattr(lock, "_SETTLE_SECONDS", 0.0)
    return object_store / "run.lock"


def test_in_a_store_a_living_holder_is_refused_and_an_ended_one_is_gone(in_store):
    with (
        lock.held(in_store),
        pytest.raises(ValueError, match=r"wait 5 minutes or remove gs://"),
    ):
        lock.hold_for_all(contextlib.ExitStack(), in_store)
    assert not in_store.exists()


def test_in_a_store_a_holder_that_fell_silent_is_replaced(in_store, monkeypatch):
    lock._beat(in_store, lock._holder() | {"id": "dead"})
    now = lock.time.time()
    monkeypatch.setattr(lock.time, "time", lambda: now + 299)
    with pytest.raises(ValueError, match="is in use"):
        lock.hold_for_all(contextlib.ExitStack(), in_store)
    monkeypatch.setattr(lock.time, "time", lambda: now + 301)
    with lock.held(in_store):
        assert lock._read(in_store.read_text())["pid"] == os.getpid()


def test_in_a_store_the_later_of_two_that_came_at_once_stays(in_store, monkeypatch):
    other = lock._holder() | {"id": "other", "pid": 12345}
    monkeypatch.setattr(lock.time, "sleep", lambda _: lock._beat(in_store, other))
    with pytest.raises(ValueError, match="process 12345 on"):
        lock.hold_for_all(contextlib.ExitStack(), in_store)
    assert lock._read(in_store.read_text())["pid"] == 12345


def test_in_a_store_a_holder_keeps_saying_that_it_lives(in_store, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.01)
    with lock.held(in_store):
        first = lock._read(in_store.read_text())["time"]
        deadline = lock.time.monotonic() + 10
        while lock._read(in_store.read_text())["time"] == first:
            assert lock.time.monotonic() < deadline


def test_in_a_store_a_holder_notices_that_another_took_over(in_store, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.01)
    other = lock._holder() | {"id": "other", "pid": 12345}
    deadline = lock.time.monotonic() + 10
    with lock.held(in_store) as hold:
        while not hold.lost_to:
            lock._beat(in_store, other)
            assert lock.time.monotonic() < deadline
    assert lock._read(in_store.read_text())["pid"] == 12345
    with pytest.raises(lock.LockLost, match=r"process 12345 .* ends without saving"):
        raise hold.error()


def test_the_question_for_locks_is_one_that_nfs_answers(tmp_path, monkeypatch):
    flock = lock.fcntl.flock

    def as_nfs(stream, operation):
        if operation & lock.fcntl.LOCK_SH and not stream.readable():
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(stream, operation)

    monkeypatch.setattr(lock.fcntl, "flock", as_nfs)
    assert lock._can_lock(epath.Path(tmp_path / "run.lock"))


def test_a_beat_that_the_network_loses_does_not_end_the_others(in_store, monkeypatch):
    beat, calls = lock._beat, []

    def unreliable(file, own):
        calls.append(file)
        if len(calls) == 2:
            raise ConnectionError("lost")
        beat(file, own)

    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(lock, "_beat", unreliable)
    with lock.held(in_store):
        deadline = lock.time.monotonic() + 10
        while len(calls) < 4:
            assert lock.time.monotonic() < deadline


def test_a_file_system_without_locks_is_treated_as_a_store(tmp_path, monkeypatch):
    def unknown(stream, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", unknown)
    monkeypatch.setattr(lock, "_SETTLE_SECONDS", 0.0)
    file = epath.Path(tmp_path / "run.lock")
    with (
        lock.held(file),
        pytest.raises(ValueError, match="wait 5 minutes or remove"),
    ):
        lock.hold_for_all(contextlib.ExitStack(), file)
    assert not file.exists()
