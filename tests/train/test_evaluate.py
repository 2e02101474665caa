"""Evaluating a workdir by itself."""

import jax
import pytest

from tests.train.digits import tiny_config
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.loop import train_and_evaluate


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(workdir, its last evaluation)."""
    folder = tmp_path_factory.mktemp("trained")
    result = train_and_evaluate(tiny_config(model__dropout=0.3), folder)
    return folder, result.evaluation


def test_it_gives_what_training_gave(trained):
    folder, during = trained
    after = evaluate_workdir(folder)
    assert (after["step"], after["source"], after["split"]) == (6, "digits", "test")
    assert after["examples"] == during["eval/examples"] == 360
    assert after["accuracy"] == during["eval/accuracy"]
    assert after["top5_accuracy"] == during["eval/top5_accuracy"]
    assert abs(after["loss"] - during["eval/loss"]) < 1e-6


def test_the_batch_size_changes_no_figure(trained):
    folder, _ = trained
    whole, parts = (evaluate_workdir(folder, batch_size=size) for size in (360, 7))
    assert abs(whole.pop("loss") - parts.pop("loss")) < 1e-6
    assert whole == parts


@pytest.mark.parametrize("count", [1, 3])
def test_the_devices_share_each_batch_and_change_no_figure(trained, tmp_path, count):
    # 360 examples in batches of 50: eight devices don't share them evenly, nor do
    # three, and the last batch has ten.
    folder, _ = trained

    def found(devices):
        return evaluate_workdir(
            folder,
            batch_size=50,
            per_class=True,
            confusion_file=str(tmp_path / "confusion.csv"),
            devices=devices,
        )

    few, all_of_them = found(jax.local_devices()[:count]), found(None)
    assert all_of_them["examples"] == 360
    assert abs(few.pop("loss") - all_of_them.pop("loss")) < 1e-6
    assert few == all_of_them


def test_another_split_is_read_on_request(trained):
    folder, _ = trained
    figures = evaluate_workdir(folder, source="digits", split="train")
    assert (figures["examples"], figures["split"]) == (1437, "train")


def test_a_split_that_is_not_there_is_named(trained):
    folder, _ = trained
    with pytest.raises((ValueError, FileNotFoundError), match="split=validation"):
        evaluate_workdir(folder, split="validation")


def test_a_folder_that_is_no_workdir_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not the workdir of a training run"):
        evaluate_workdir(tmp_path)
