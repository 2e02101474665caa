"""Tests vit_jax/data/pipeline.py: what is in the batches, and in which order."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.data.pictures import smooth_pixels
from vit_jax.data import pipeline, workers
from vit_jax.data.bundled import ArraySource
from vit_jax.data.decode import UnreadableImage
from vit_jax.data.pipeline import eval_batches, train_batches
from vit_jax.data.transforms import EvalTransform, TrainTransform

EVALUATE = EvalTransform((4, 4), "stretch", 1.0, "bilinear")
AUGMENT = TrainTransform((4, 4), "random_resized", (0.3, 1.0), (0.75, 1.33), 0, 0.5, ())

# Starting workers takes seconds.
IN_PROCESS_AND_OUT = [0, pytest.param(2, marks=pytest.mark.slow)]


def source_of(count: int) -> ArraySource:
    """Examples whose label is their number and whose image is drawn by it."""
    images = np.stack([smooth_pixels(6, 6, seed=number) for number in range(count)])
    names = tuple(str(number) for number in range(count))
    return ArraySource(images, np.arange(count), names, "picture")


class Damaged(ArraySource):
    """A source in which examples 2 and 5 can't be decoded."""

    def __getitem__(self, index):
        image, label, name = super().__getitem__(index)
        return b"not an image" if index in (2, 5) else image, label, name


def damaged_of(count: int) -> Damaged:
    source = source_of(count)
    names = tuple(str(number) for number in range(count))
    return Damaged(source._images, np.arange(count), names, "picture")


def take(batches, count):
    taken = list(itertools.islice(batches, count))
    batches.close()
    return taken


def train(source, *, start=0, count=5, batch=4, transform=AUGMENT, **options):
    defaults = {"seed": 0, "channels": 3, "start_step": start, "batch_size": batch}
    return take(train_batches(source, transform, **(defaults | options)), count)


def evaluate(source, batch, **options):
    options = {"channels": 3, "batch_size": batch} | options
    return list(eval_batches(source, EVALUATE, **options))


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for key in ("image", "label", "weight", "index"):
            np.testing.assert_array_equal(one[key], other[key])


def test_batches_have_the_promised_arrays():
    (batch,) = train(source_of(9), count=1)
    assert {key: (value.dtype.name, value.shape) for key, value in batch.items()} == {
        "image": ("uint8", (4, 4, 4, 3)),
        "label": ("int32", (4,)),
        "weight": ("float32", (4,)),
        "index": ("int64", (4,)),
    }
    np.testing.assert_array_equal(batch["index"], [0, 1, 2, 3])
    np.testing.assert_array_equal(batch["weight"], 1)


def test_each_example_once_an_epoch_and_each_epoch_in_its_order():
    labels = np.concatenate(
        [b["label"] for b in train(source_of(10), batch=5, count=8)]
    )
    epochs = labels.reshape(4, 10)
    for epoch in epochs:
        assert sorted(epoch) == list(range(10))
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4


def test_an_example_comes_repeatedly_and_differently_augmented():
    batches = train(source_of(64), batch=64, count=2, repeats=2)
    for batch in batches:
        labels, counts = np.unique(batch["label"], return_counts=True)
        assert len(labels) == 32 and (counts == 2).all()
        first, second = np.flatnonzero(batch["label"] == labels[0])
        assert np.any(batch["image"][first] != batch["image"][second])
    assert set(batches[0]["label"]) != set(batches[1]["label"])
    halves = train(source_of(64), batch=32, start=1, count=3, repeats=2)
    np.testing.assert_array_equal(halves[0]["image"], batches[0]["image"][32:])


def test_epochs_need_not_end_with_a_batch():
    labels = np.concatenate(
        [b["label"] for b in train(source_of(10), batch=4, count=5)]
    )
    assert sorted(labels[:10]) == sorted(labels[10:]) == list(range(10))


def test_the_seed_decides_order_and_augmentation():
    first, again = train(source_of(10)), train(source_of(10))
    assert_equal(first, again)
    other = train(source_of(10), seed=1)
    assert any(
        np.any(a["label"] != b["label"]) for a, b in zip(first, other, strict=True)
    )


def test_an_example_is_augmented_anew_each_epoch():
    batches = train(source_of(4), batch=4, count=2)
    images = [b["image"][np.argsort(b["label"])] for b in batches]
    assert np.any(images[0] != images[1])


def test_batches_start_at_any_step():
    whole = train(source_of(10), count=9)
    assert_equal(train(source_of(10), start=4, count=5), whole[4:])


def test_seeking_far_reads_only_what_it_gives():
    reads = []

    class Counted(ArraySource):
        def __getitem__(self, index):
            reads.append(index)
            return super().__getitem__(index)

    images = np.zeros((1000, 4, 4, 3), np.uint8)
    source = Counted(images, np.zeros(1000), ("one",), "picture")
    began = time.perf_counter()
    train(source, start=100_000, count=1)
    assert time.perf_counter() - began < 5
    ahead = workers._AHEAD + 2 * workers._MOST_THREADS + 1
    assert len(reads) <= 4 * ahead


def test_worker_processes_change_nothing():
    alone = train(source_of(10), count=6, start=3)
    assert_equal(train(source_of(10), count=6, start=3, workers=2), alone)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_changes_nothing(workers, monkeypatch):
    monkeypatch.setattr(pipeline, "_WORKERS_FROM", 1)
    alone = train(source_of(10), count=6, start=3)
    assert_equal(train(source_of(10), count=6, start=3, workers=workers), alone)
    assert_equal(
        evaluate(source_of(10), 4, workers=workers), evaluate(source_of(10), 4)
    )


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_take_contiguous_parts_of_the_same_batches(processes):
    whole = train(source_of(10), batch=8)
    parts = [
        train(source_of(10), batch=8, process_index=index, process_count=processes)
        for index in range(processes)
    ]
    joined = [
        {key: np.concatenate([part[step][key] for part in parts]) for key in batch}
        for step, batch in enumerate(whole)
    ]
    assert_equal(joined, whole)


def test_chunks_of_a_batch_change_nothing(monkeypatch):
    whole, judged = train(source_of(10), batch=7), evaluate(source_of(10), 7)
    monkeypatch.setattr(pipeline, "_CHUNK_BYTES", 2 * 4 * 4 * 3)
    assert_equal(train(source_of(10), batch=7), whole)
    assert_equal(evaluate(source_of(10), 7), judged)


def test_a_batch_must_divide_over_the_processes():
    with pytest.raises(ValueError, match="batch_size=9 must be a multiple of the 2"):
        train(source_of(10), batch=9, process_count=2)


@pytest.mark.parametrize("batch", [3, 4, 7, 10, 16])
def test_evaluation_counts_every_example_once(batch):
    correct = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 1])
    batches = evaluate(source_of(10), batch)
    assert len(batches) == -(-10 // batch)
    assert all(len(b["weight"]) == batch for b in batches)
    hits = sum((correct[b["label"]] * b["weight"]).sum() for b in batches)
    count = sum(b["weight"].sum() for b in batches)
    assert count == 10 and hits / count == pytest.approx(0.7)


def test_an_evaluation_set_smaller_than_a_batch_is_padded():
    (batch,) = evaluate(source_of(3), 8)
    np.testing.assert_array_equal(batch["weight"], [1, 1, 1, 0, 0, 0, 0, 0])
    assert not batch["image"][3:].any()


@pytest.mark.parametrize("processes", [2, 4])
def test_all_processes_get_equally_many_evaluation_batches(processes):
    parts = [
        evaluate(source_of(5), 4, process_index=index, process_count=processes)
        for index in range(processes)
    ]
    assert {len(part) for part in parts} == {2}
    seen = [b["label"][b["weight"] == 1] for part in parts for b in part]
    assert sorted(np.concatenate(seen)) == [0, 1, 2, 3, 4]


def test_small_sets_are_evaluated_without_the_wait_for_workers(monkeypatch):
    asked = []

    def workers_of(maker, steps, workers, on_bad):
        asked.append(workers)
        return iter(())

    monkeypatch.setattr(pipeline, "_batches", workers_of)
    for count in (1999, 2000):
        evaluate(source_of(count), 4, workers=2)
    assert asked == [0, 2]


def test_batches_after_others_take_the_positions_that_follow():
    def positions(**options):
        return [batch["index"].tolist() for batch in train(source_of(10), **options)]

    assert positions(batch=2, first_position=7, count=3) == [[7, 8], [9, 10], [11, 12]]
    assert positions(batch=2, first_position=7, start=2, count=1) == [[11, 12]]


@pytest.mark.parametrize("workers", IN_PROCESS_AND_OUT)
def test_an_unreadable_image_ends_the_run_with_its_name(workers):
    with pytest.raises(UnreadableImage, match="picture [25] is unreadable: it is no"):
        train(damaged_of(10), workers=workers)


@pytest.mark.parametrize("workers", IN_PROCESS_AND_OUT)
def test_a_skipped_image_keeps_its_place_with_weight_0(workers):
    skipped = []
    batches = train(damaged_of(10), count=5, on_bad=skipped.append, workers=workers)
    sound = train(source_of(10), count=5)
    for batch, complete in zip(batches, sound, strict=True):
        bad = np.isin(complete["label"], [2, 5])
        np.testing.assert_array_equal(batch["weight"], np.where(bad, 0, 1))
        np.testing.assert_array_equal(batch["image"][~bad], complete["image"][~bad])
        np.testing.assert_array_equal(batch["index"], complete["index"])
        assert not batch["image"][bad].any()
    assert sorted(skipped) == ["picture 2", "picture 2", "picture 5", "picture 5"]


def test_evaluation_lists_what_it_skips():
    skipped = []
    batches = evaluate(damaged_of(10), 4, on_bad=skipped.append)
    assert sum(b["weight"].sum() for b in batches) == 8
    assert skipped == ["picture 2", "picture 5"]


class Stale(ArraySource):
    """A source whose files 2 and 5 are gone or may not be read."""

    def __getitem__(self, index):
        if index in (2, 5):
            raise (FileNotFoundError if index == 2 else PermissionError)("no such luck")
        return super().__getitem__(index)


def test_files_that_can_not_be_read_are_unreadable_images():
    sound = source_of(10)
    stale = Stale(sound._images, np.arange(10), sound.class_names, "picture")
    with pytest.raises(UnreadableImage, match="picture [25] is unreadable: no such lu"):
        evaluate(stale, 10)
    skipped = []
    (batch,) = evaluate(stale, 10, on_bad=skipped.append)
    np.testing.assert_array_equal(batch["weight"], [1, 1, 0, 1, 1, 0, 1, 1, 1, 1])
    assert skipped == ["picture 2", "picture 5"]


def test_opencv_starts_no_threads_beside_those_that_decode():
    cv2.setNumThreads(2)
    evaluate(source_of(3), 3)
    assert cv2.getNumThreads() == 1


def children_of(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(status.parent.name))
    return found


PARENT = """
    import sys
    from tests.data.test_pipeline import AUGMENT, source_of
    from vit_jax.data.pipeline import train_batches

    if __name__ == "__main__":
        batches = train_batches(
            source_of(10), AUGMENT, seed=0, batch_size=4, channels=3, start_step=0,
            workers=2,
        )
        next(batches)
        print("ready", flush=True)
        while True:
            next(batches)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(PARENT))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout.readline() == "ready\n"
        workers = children_of(parent.pid)
        assert len(workers) >= 2
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)
