"""What a run writes about itself, and what a later call must match."""

import json

import pytest

from tests.data.pictures import write_folder
from tests.train.digits import tiny_config
from vit_jax import config as configuration
from vit_jax.data.fingerprint import fingerprint
from vit_jax.data.sources import open_source
from vit_jax.train.assemble import assemble
from vit_jax.train.resume import describe_run, refuse_other_run
from vit_jax.train.stored import stored_config
from vit_jax.workdir import Workdir


@pytest.fixture
def workdir(tmp_path):
    """A workdir that a run with `tiny_config` has described."""
    workdir = Workdir(tmp_path)
    workdir.create()
    describe_run(workdir, assemble(tiny_config()))
    return workdir


def test_the_description_is_the_whole_resolved_config(workdir):
    stored = configuration.from_values(json.loads(workdir.config.read_text()))
    assert stored.model.num_classes == 10
    assert stored.data.train.batch_size == 16
    assert workdir.read_classes() == tuple("0123456789")
    assert workdir.read_preprocessing()["image_size"] == [8, 8]


def test_the_same_config_is_accepted_without_a_word(workdir):
    assert refuse_other_run(workdir, assemble(tiny_config())) == []


def test_what_a_preset_decides_is_stored_and_the_same_again(workdir):
    config = tiny_config(augment__preset="deit", augment__mixup=0.3)
    parts = assemble(config)
    describe_run(workdir, parts)
    stored = json.loads(workdir.config.read_text())["augment"]
    assert stored["preset"] == "deit"
    assert (stored["mixup"], stored["cutmix"], stored["repeats"]) == (0.3, 1.0, 3)
    assert None not in stored.values()
    assert refuse_other_run(workdir, assemble(config)) == []
    changed = assemble(tiny_config(augment__preset="deit"))
    assert refuse_other_run(workdir, changed) == [
        "changed since the checkpoint: augment.mixup=0.8 (it was 0.3)"
    ]


def test_other_files_of_the_same_number_are_said(tmp_path):
    photos = write_folder(tmp_path / "photos" / "train", {"a": 4, "b": 4})
    workdir = Workdir(tmp_path / "run")
    workdir.create()

    def parts():
        config = tiny_config(data__source=str(photos.parent), data__eval__split="")
        return assemble(config)

    describe_run(workdir, parts())
    assert refuse_other_run(workdir, parts()) == []
    (photos / "a" / "000.png").rename(photos / "a" / "other.png")
    (said,) = refuse_other_run(workdir, parts())
    assert "as many examples as it had, but others" in said
    write_folder(photos, {"b": 5})
    (said,) = refuse_other_run(workdir, parts())
    assert "the training data has 9 examples and had 8" in said


def test_a_folder_that_moved_is_the_same_data(tmp_path):
    photos = write_folder(tmp_path / "photos" / "train", {"a": 2, "b": 2})
    before = fingerprint(open_source(str(photos.parent), "train"))
    moved = (tmp_path / "photos").rename(tmp_path / "elsewhere")
    assert fingerprint(open_source(str(moved), "train")) == before


def test_a_local_source_is_stored_independent_of_the_folder(
    workdir, tmp_path, monkeypatch
):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    parts = assemble(tiny_config())
    parts.config.data.eval.source = "photos"
    describe_run(workdir, parts)
    stored = json.loads(workdir.config.read_text())
    assert stored["data"]["eval"]["source"] == str(tmp_path / "photos")
    monkeypatch.chdir("/")
    parts.config.data.eval.source = str(tmp_path / "photos")
    assert refuse_other_run(workdir, parts) == []


def test_what_leaves_the_weights_alone_may_change_and_is_named(workdir):
    changed = assemble(tiny_config(model__dropout=0.5, seed=2))
    assert set(refuse_other_run(workdir, changed)) == {
        "changed since the checkpoint: model.dropout=0.5 (it was None)",
        "changed since the checkpoint: seed=2 (it was 0)",
    }


def test_another_batch_size_says_where_the_data_goes_on(workdir):
    lines = refuse_other_run(workdir, assemble(tiny_config(data__train__batch_size=32)))
    assert lines[0].endswith("data.train.batch_size=32 (it was 16)")
    assert "goes on at example number step * batch size" in lines[1]


@pytest.mark.parametrize(
    ("stages", "moves"),
    [
        (((8, 0.5, 32), (8, 0.5, 0)), True),
        (((8, 0.5, 16), (8, 0.5, 0)), False),
        (((4, 0.5, 0), (8, 0.5, 0)), False),
    ],
)
def test_another_batch_of_a_stage_says_so_too(workdir, stages, moves):
    lines = refuse_other_run(workdir, assemble(tiny_config(schedule__stages=stages)))
    assert "schedule.stages=" in lines[0]
    assert any("another batch size" in line for line in lines) == moves


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"model__depth": 2}, "model.depth: 1 in the workdir, 2 asked for"),
        ({"model__image_size": (12,)}, r"model.image_size: \(8, 8\) in the workdir"),
        ({"model__num_classes": 11}, "model.num_classes: 10 in the workdir, 11"),
    ],
)
def test_another_model_is_refused_with_its_differences(workdir, change, difference):
    with pytest.raises(ValueError, match=difference):
        refuse_other_run(workdir, assemble(tiny_config(**change)))


def test_other_classes_are_refused_with_both_lists(workdir):
    workdir.write_classes(("cat", "dog"))
    with pytest.raises(ValueError, match="the classes cat, dog, and data.source=digit"):
        refuse_other_run(workdir, assemble(tiny_config()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "a config is a mapping of keys, not list"),
        ('{"seed": "x"}', "seed='?x'? must be"),
        ('{"seeds": 1}', "seeds"),
        ('{"model": 3}', "model"),
        ('{"model": {"width": {"a": 1}}}', "model.width"),
        ('{"seed": nul', r"config\.json is damaged"),
    ],
)
def test_a_config_that_no_run_has_is_named(workdir, text, said):
    workdir.config.write_text(text)
    with pytest.raises(ValueError, match=said) as raised:
        stored_config(workdir)
    assert str(raised.value).startswith(f"{workdir.config} is damaged")


@pytest.mark.parametrize("name", ["data.json", "best.json"])
def test_a_file_that_holds_no_object_is_named(workdir, name):
    (workdir.path / name).write_text("[1]")
    read = {"data.json": workdir.read_data, "best.json": workdir.read_best}[name]
    with pytest.raises(ValueError, match=rf"{name} is damaged \(it holds no JSON obj"):
        read()


def test_checkpoints_without_a_config_say_so_and_how_it_comes_back(workdir):
    workdir.config.unlink()
    workdir.checkpoints.mkdir()
    with pytest.raises(FileNotFoundError, match=r"is missing: config\.json.*vit_jax"):
        refuse_other_run(workdir, assemble(tiny_config()))


def test_checkpoints_without_a_description_are_refused(workdir):
    workdir.classes.unlink()
    with pytest.raises(FileNotFoundError, match=r"it lacks classes\.txt"):
        refuse_other_run(workdir, assemble(tiny_config()))
