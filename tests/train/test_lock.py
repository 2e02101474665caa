"""One run at a time in a workdir."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from etils import epath

from vit_jax.train import lock
from vit_jax.train.conditional import ConditionalFile

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


def test_a_run_notices_that_its_lock_was_removed_and_taken_by_another(tmp_path):
    file = epath.Path(tmp_path / "run.lock")
    with lock.held(file) as hold:
        assert hold.look() == ""
        file.unlink()
        with lock.held(file) as other:
            assert json.loads(hold.look())["pid"] == os.getpid()
            assert other.look() == ""
        # What it found stays, also when the other run has ended.
        assert hold.lost_to
    with pytest.raises(lock.LockLost, match=r"somebody removed run\.lock"):
        raise hold.error()


def test_a_lock_that_another_run_took_and_left_is_lost(tmp_path):
    file = epath.Path(tmp_path / "run.lock")
    with lock.held(file) as hold:
        file.unlink()
        with lock.held(file):
            pass
        assert hold.look()


def test_a_lock_file_that_is_merely_gone_is_made_anew_and_locked(tmp_path):
    file = epath.Path(tmp_path / "run.lock")
    with lock.held(file) as hold:
        file.unlink()
        assert hold.look() == ""
        with (
            pytest.raises(ValueError, match=f"process {os.getpid()} on"),
            lock.held(file),
        ):
            pass
        assert hold.look() == ""
    assert file.read_text() == ""


def name_holder(file, **holder):
    """Writes as another run would, without a look."""
    file.write_text(json.dumps(lock._holder() | {"time": time.time()} | holder))


@pytest.fixture
def in_store(object_store, monkeypatch):
    monkeypatch.setattr(lock, "_SETTLE_SECONDS", 0.0)
    return object_store / "run.lock"


@pytest.fixture
def without_locks(tmp_path, monkeypatch):
    """A file on a file system that knows no locks."""

    def unknown(stream, operation):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", unknown)
    monkeypatch.setattr(lock, "_SETTLE_SECONDS", 0.0)
    return epath.Path(tmp_path / "run.lock")


@pytest.fixture(params=["in_store", "without_locks"])
def named(request):
    """A lock file that names its holder, wherever that is so."""
    return request.getfixturevalue(request.param)


def test_a_living_holder_is_refused_and_an_ended_one_is_gone(named):
    with (
        lock.held(named),
        pytest.raises(ValueError, match=r"wait 5 minutes or remove .*run.lock"),
    ):
        lock.hold_for_all(contextlib.ExitStack(), named)
    assert not named.exists()
    with lock.held(named):
        pass


def test_a_holder_that_fell_silent_is_replaced(named, monkeypatch):
    name_holder(named, id="dead", pid=1)
    now = time.time()
    monkeypatch.setattr(lock.time, "time", lambda: now + 299)
    with pytest.raises(ValueError, match="is in use"):
        lock.hold_for_all(contextlib.ExitStack(), named)
    monkeypatch.setattr(lock.time, "time", lambda: now + 301)
    with lock.held(named):
        assert lock._read(named.read_text())["pid"] == os.getpid()


def test_of_many_that_come_at_once_one_alone_has_the_workdir(in_store, monkeypatch):
    # All have looked before any of them writes.
    looked, read = threading.Barrier(6), ConditionalFile.read

    def together(self):
        version = read(self)
        if not version.text:
            looked.wait(20)
        return version

    monkeypatch.setattr(ConditionalFile, "read", together)
    ended, outcomes = threading.Barrier(6), []

    def come():
        try:
            with lock.held(in_store):
                outcomes.append("held")
                ended.wait(20)
        except ValueError as error:
            outcomes.append(str(error))
            ended.wait(20)

    threads = [threading.Thread(target=come) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("held") == 1
    assert sum(" is in use: process " in outcome for outcome in outcomes) == 5


def test_without_conditional_writes_the_later_of_two_stays(without_locks, monkeypatch):
    def comes_too(_):
        name_holder(without_locks, id="other", pid=12345)

    monkeypatch.setattr(lock.time, "sleep", comes_too)
    with pytest.raises(ValueError, match="process 12345 on"):
        lock.hold_for_all(contextlib.ExitStack(), without_locks)
    assert lock._read(without_locks.read_text())["pid"] == 12345


def test_a_holder_keeps_saying_that_it_lives(named, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.01)
    with lock.held(named):
        first = lock._read(named.read_text())["time"]
        deadline = time.monotonic() + 10
        while lock._read(named.read_text())["time"] == first:
            assert time.monotonic() < deadline


def test_a_holder_notices_that_another_took_over(named, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.01)
    deadline = time.monotonic() + 10
    with lock.held(named) as hold:
        while not hold.lost_to:
            name_holder(named, id="other", pid=12345)
            assert time.monotonic() < deadline
    assert lock._read(named.read_text())["pid"] == 12345
    with pytest.raises(lock.LockLost, match=r"process 12345 .* ends without saving"):
        raise hold.error()


def test_a_file_that_was_removed_is_written_anew(in_store, monkeypatch):
    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.01)
    deadline = time.monotonic() + 10
    with lock.held(in_store) as hold:
        in_store.unlink()
        while not in_store.exists():
            assert time.monotonic() < deadline
        assert not hold.lost_to


def test_the_question_for_locks_is_one_that_nfs_answers(tmp_path, monkeypatch):
    flock = lock.fcntl.flock

    def as_nfs(stream, operation):
        if operation & lock.fcntl.LOCK_SH and not stream.readable():
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(stream, operation)

    monkeypatch.setattr(lock.fcntl, "flock", as_nfs)
    assert lock._can_lock(epath.Path(tmp_path / "run.lock"))


@pytest.mark.parametrize("arrives", [False, True])
def test_a_beat_that_the_network_loses_does_not_end_the_others(
    in_store, monkeypatch, arrives
):
    # A write whose answer is lost has left this holder's own name, of a newer version.
    write, calls = ConditionalFile.write, []

    def unreliable(self, text, after):
        calls.append(text)
        if len(calls) != 2:
            return write(self, text, after)
        if arrives:
            write(self, text, after)
        raise ConnectionError("lost")

    monkeypatch.setattr(lock, "_BEAT_SECONDS", 0.01)
    monkeypatch.setattr(ConditionalFile, "write", unreliable)
    with lock.held(in_store) as hold:
        deadline = time.monotonic() + 10
        while len(calls) < 6:
            assert time.monotonic() < deadline
        assert not hold.lost_to
    assert not in_store.exists()
