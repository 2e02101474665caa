"""Which checkpoint a run goes on from, when some are damaged."""

import shutil

import pytest
from etils import epath

from tests.train.digits import tiny_config
from tests.train.journals import losses, rows
from vit_jax.checkpoint import DamagedCheckpoint, complete_steps
from vit_jax.train import restoring
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.lock import held
from vit_jax.train.loop import train_and_evaluate
from vit_jax.workdir import Workdir

# Constant, so that a run of more steps begins as one of fewer.
SETTINGS = {"schedule__decay": "constant", "checkpoint__keep": 3}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A workdir with checkpoints 2, 4, 6 of a run of six steps."""
    folder = tmp_path_factory.mktemp("finished")
    train_and_evaluate(tiny_config(**SETTINGS), folder)
    return folder


@pytest.fixture
def workdir(finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def damage(workdir, *steps):
    for step in steps:
        file = workdir / "checkpoints" / str(step) / "training" / "manifest.ocdbt"
        file.write_bytes(file.read_bytes()[:10])


def longer(**changes):
    return tiny_config(schedule__total_steps=8, **SETTINGS, **changes)


def test_a_damaged_newest_checkpoint_is_stepped_over_when_asked_for(
    workdir, tmp_path_factory, capsys
):
    damage(workdir, 6)
    result = train_and_evaluate(longer(checkpoint__on_damage="previous"), workdir)
    assert result.finished
    said = capsys.readouterr().err
    assert "checkpoints/6 is damaged: its training can't be read" in said
    assert "going on from the checkpoint of step 4" in said
    (aside,) = (workdir / "checkpoints").glob("6.damaged-*")
    assert str(aside) in said
    assert (aside / "training" / "manifest.ocdbt").stat().st_size == 10
    assert complete_steps(workdir / "checkpoints") == [4, 6, 8]
    straight = tmp_path_factory.mktemp("straight")
    train_and_evaluate(longer(), straight)
    assert losses(workdir) == losses(straight)


def test_by_default_it_is_named_with_the_way_out_and_nothing_changes(workdir):
    damage(workdir, 6)
    before = rows(workdir)
    with pytest.raises(
        DamagedCheckpoint,
        match=r"checkpoints/6 is damaged.*Set checkpoint\.on_damage=previous.*step 4",
    ):
        train_and_evaluate(longer(), workdir)
    assert rows(workdir) == before
    assert complete_steps(workdir / "checkpoints") == [2, 4, 6]


def test_when_all_are_damaged_nothing_is_renamed(workdir):
    damage(workdir, 2, 4, 6)
    with pytest.raises(DamagedCheckpoint, match=r"checkpoints/6 is damaged"):
        train_and_evaluate(longer(checkpoint__on_damage="previous"), workdir)
    assert complete_steps(workdir / "checkpoints") == [2, 4, 6]


def test_another_optimizer_is_no_damage(workdir):
    config = longer(checkpoint__on_damage="previous", optimizer__name="sgd")
    with pytest.raises(ValueError, match="holds another optimizer state"):
        train_and_evaluate(config, workdir)
    assert complete_steps(workdir / "checkpoints") == [2, 4, 6]


def test_while_a_run_holds_a_workdir_trainers_are_refused_and_readers_are_not(workdir):
    with held(epath.Path(workdir / "run.lock")):
        with pytest.raises(ValueError, match="is in use"):
            train_and_evaluate(longer(), workdir)
        assert evaluate_workdir(workdir)["step"] == 6


@pytest.mark.parametrize(
    ("worst", "error", "message"),
    [
        (1, DamagedCheckpoint, r"checkpoints/4 is damaged \(as another process reads"),
        (2, RuntimeError, "checkpoints/4: another process failed to read it"),
    ],
)
def test_what_one_process_can_not_read_no_process_goes_on_from(
    tmp_path, monkeypatch, worst, error, message
):
    monkeypatch.setattr(restoring, "_restored", lambda *_: ("state", (8, 8)))
    monkeypatch.setattr(restoring.processes, "largest", lambda own: max(own, worst))
    with pytest.raises(error, match=message):
        restoring._by_all(Workdir(tmp_path), 4, None, print)
    monkeypatch.setattr(restoring.processes, "largest", lambda own: own)
    assert restoring._by_all(Workdir(tmp_path), 4, None, print) == ("state", (8, 8))
