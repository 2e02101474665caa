"""Figures on their way to disk."""

import json
import os

import pytest
from etils import epath
from tensorboardX.proto.event_pb2 import Event

from vit_jax.train import metrics
from vit_jax.train.metrics import Metrics, TensorBoard
from vit_jax.workdir import DiskFull, Workdir

ROW = {"step": 5, "loss": 0.25, "note": "text is for the journal alone"}


def events(folder):
    """The events of the one file in `folder`, whose records have 12 + 4 extra bytes."""
    (file,) = folder.iterdir()
    data = file.read_bytes()
    found = []
    while data:
        length = int.from_bytes(data[:8], "little")
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return found


def test_a_row_reaches_journal_and_tensorboard_at_its_step(tmp_path):
    workdir = Workdir(tmp_path)
    figures = Metrics(workdir, tensorboard=True, writes=True)
    assert not figures.start(4)
    figures.write(ROW)
    figures.flush()
    version, restart, row = events(tmp_path / "tensorboard")
    assert version.file_version == "brain.Event:2"
    assert (restart.step, restart.session_log.status) == (5, 1)
    (value,) = row.summary.value
    assert (row.step, value.tag, value.simple_value) == (5, "loss", 0.25)
    figures.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == ROW
    assert figures.last("loss") == ROW


def test_a_process_that_does_not_lead_writes_nothing(tmp_path):
    text = '{"step": 2}\n{"step": 9, "loss": 3.0}\n'
    (tmp_path / "metrics.jsonl").write_text(text)
    figures = Metrics(Workdir(tmp_path), tensorboard=True, writes=False)
    assert figures.start(4)
    assert figures.rows() == [{"step": 2}]
    figures.write(ROW)
    figures.flush()
    figures.close()
    # It knows what the leader knows.
    assert figures.last("loss") == ROW
    assert os.listdir(tmp_path) == ["metrics.jsonl"]
    assert (tmp_path / "metrics.jsonl").read_text() == text


def test_in_a_store_the_events_are_copied_at_each_flush(object_store):
    folder = object_store / "tensorboard"
    board = TensorBoard(folder, restart_step=0)
    board.write(ROW)
    board.flush()
    assert len(events(folder)) == 3
    board.write(ROW | {"step": 6})
    board.close()
    assert [event.step for event in events(folder)] == [0, 1, 5, 6]


def test_a_full_disk_is_said_in_plain_words_and_waits_for_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(metrics.time, "time", lambda: 1.0)
    monkeypatch.setattr(metrics.socket, "gethostname", lambda: "host")
    name = f"events.out.tfevents.1.host.{os.getpid()}"
    (tmp_path / name).symlink_to("/dev/full")
    board = TensorBoard(epath.Path(tmp_path), restart_step=0)
    with pytest.raises(DiskFull, match=rf"the disk is full: .*{name}"):
        board.flush()
    with pytest.raises(DiskFull, match="Make room"):
        board.close()


def test_what_another_run_has_taken_over_is_left_as_it_is(object_store):
    workdir = Workdir(object_store)
    lost = []
    metrics = Metrics(workdir, tensorboard=True, writes=True, lost=lambda: bool(lost))
    metrics.start(0)
    metrics.write({"step": 1, "loss": 1.0})
    metrics.flush()
    metrics.write({"step": 2, "loss": 1.0})
    (copied,) = workdir.tensorboard.iterdir()
    before = copied.read_bytes()
    workdir.metrics.write_text("of the other run")
    lost.append(True)
    metrics.write({"step": 3, "loss": 1.0})
    metrics.flush()
    metrics.close()
    assert workdir.metrics.read_text() == "of the other run"
    assert copied.read_bytes() == before
    assert metrics.last("step") == {"step": 3, "loss": 1.0}
