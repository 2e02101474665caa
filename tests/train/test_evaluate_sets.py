"""Evaluating a workdir: sets, classes, confusion matrix, ReaL."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from tests.train.digits import tiny_config
from vit_jax.__main__ import main
from vit_jax.train import evaluate
from vit_jax.train.details import class_labels, example_names
from vit_jax.train.evaluate import evaluate_workdir
from vit_jax.train.loop import train_and_evaluate


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    config = tiny_config(
        schedule__base_learning_rate=3e-3,
        schedule__total_steps=20,
        checkpoint__every_steps=0,
        evals__sets=(("part", "digits", "test[:50%]"),),
    )
    train_and_evaluate(config, folder)
    return folder


def test_classes_and_matrix_agree_with_the_accuracy(workdir, tmp_path):
    file = tmp_path / "confusion.csv"
    found = evaluate_workdir(workdir, per_class=True, confusion_file=str(file))
    rows = list(csv.reader(file.read_text().splitlines()))
    assert rows[0] == ["class", *"0123456789"]
    counts = np.array([row[1:] for row in rows[1:]], int)
    assert counts.sum() == found["examples"] == 360
    np.testing.assert_allclose(np.trace(counts) / 360, found["accuracy"])
    assert found["accuracy"] > 0.15
    rates = [row["accuracy"] for row in found["per_class"]]
    np.testing.assert_allclose(rates, np.diag(counts) / counts.sum(axis=1))
    np.testing.assert_allclose(found["mean_class_accuracy"], np.mean(rates))
    json_file = tmp_path / "confusion.json"
    evaluate_workdir(workdir, confusion_file=str(json_file))
    stored = json.loads(json_file.read_text())
    np.testing.assert_array_equal(stored["counts"], counts)


def test_other_sets_have_classes_and_a_matrix_of_their_own(workdir, tmp_path):
    file = tmp_path / "confusion.json"
    found = evaluate_workdir(workdir, per_class=True, confusion_file=str(file))
    part = found["sets"]["part"]
    assert part["confusion"] == str(tmp_path / "confusion.part.json")
    counts = np.array(
        json.loads((tmp_path / "confusion.part.json").read_text())["counts"]
    )
    assert counts.sum() == part["examples"] == 180
    np.testing.assert_allclose(np.trace(counts) / 180, part["accuracy"])
    rates = [row["accuracy"] for row in part["per_class"]]
    np.testing.assert_allclose(rates, np.diag(counts) / counts.sum(axis=1))
    np.testing.assert_allclose(part["mean_class_accuracy"], np.mean(rates))


def test_other_sets_come_along_unless_data_are_named(workdir):
    found = evaluate_workdir(workdir)
    assert found["sets"]["part"]["examples"] == 180
    assert "sets" not in evaluate_workdir(workdir, split="test[:10%]")


def test_the_command_prints_all_of_it(workdir, tmp_path, capsys):
    file = tmp_path / "confusion.csv"
    flags = ["--per_class", f"--confusion={file}", "--checkpoint=20"]
    assert main(["evaluate", f"--workdir={workdir}", *flags]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0].startswith("step 20, 360 images of digits (test): accuracy ")
    assert lines[1].startswith("180 images of part: accuracy ")
    assert lines[2].startswith("mean over classes ")
    assert len(lines) == 13
    assert f"wrote {file}" in output.err


def test_real_labels_count_any_of_several(workdir, tmp_path, capsys):
    folder = tmp_path / "data" / "test" / "3"
    folder.mkdir(parents=True)
    for number in (1, 2, 3):
        image = Image.new("L", (8, 8), 40 * number)
        image.save(folder / f"ILSVRC2012_val_{number:08}.png")
    real = tmp_path / "real.json"
    real.write_text(json.dumps([list(range(10)), [], list(range(10))]))
    flags = [f"--data={tmp_path / 'data'}", f"--real={real}", "--json"]
    assert main(["evaluate", f"--workdir={workdir}", *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["real_accuracy"], found["real_examples"]) == (1.0, 2)
    assert found["examples"] == 3


def test_a_run_counts_real_labels_at_each_evaluation(tmp_path):
    for split, numbers in (("train", (4, 5, 6, 7)), ("test", (1, 2, 3))):
        for label in range(2):
            (folder := tmp_path / "data" / split / str(label)).mkdir(parents=True)
            for number in numbers:
                image = Image.new("L", (8, 8), 30 * number)
                image.save(folder / f"ILSVRC2012_val_{10 * label + number:08}.png")
    real = tmp_path / "real.json"
    # Any of both classes is right for images 1 to 3; 11 to 13 have no label.
    real.write_text(json.dumps([[0, 1]] * 10 + [[]] * 10))
    config = tiny_config(
        data__source=str(tmp_path / "data"),
        data__train__batch_size=8,
        data__eval__batch_size=8,
        schedule__total_steps=2,
        evals__real=str(real),
        checkpoint__best_metric="eval/real_accuracy",
    )
    found = train_and_evaluate(config, tmp_path / "run").evaluation
    assert (found["eval/real_accuracy"], found["eval/real_examples"]) == (1.0, 3)
    assert found["eval/examples"] == 6
    again = evaluate_workdir(tmp_path / "run", checkpoint="best", real=str(real))
    assert (again["real_accuracy"], again["real_examples"]) == (1.0, 3)
    config.evals.real = str(tmp_path / "absent.json")
    with pytest.raises(ValueError, match="evals.real=.*does not exist"):
        train_and_evaluate(config, tmp_path / "other")
    digits = tiny_config(evals__real=str(real), data__eval__batch_size=8)
    with pytest.raises(ValueError, match="is no ImageNet validation image"):
        train_and_evaluate(digits, tmp_path / "digits")


def test_names_inside_records_serve_as_well(workdir, tmp_path):
    from vit_jax.data.sources import open_source

    source = open_source("digits", "test")
    assert example_names(source, [3]) == [source[3][2]]


def test_a_matrix_file_of_another_kind_is_refused(workdir):
    with pytest.raises(ValueError, match=r"--confusion=a.png must end in .csv or .js"):
        evaluate_workdir(workdir, confusion_file="a.png")


def test_a_head_of_zeros_is_said_and_gives_the_first_class(tmp_path, capsys):
    config = tiny_config(schedule__total_steps=1, schedule__base_learning_rate=0.0)
    train_and_evaluate(config, tmp_path)
    found = evaluate_workdir(tmp_path, per_class=True)
    assert "the head is all zeros" in found["warning"]
    np.testing.assert_allclose(found["loss"], np.log(10), rtol=1e-6)
    assert [row["accuracy"] for row in found["per_class"]] == [1.0] + 9 * [0.0]


def test_outputs_without_a_class_have_a_number():
    assert class_labels(("a",), 3) == ("a", "class 1", "class 2")


def test_a_sigmoid_run_predicts_with_sigmoids(tmp_path, capsys):
    config = tiny_config(train__loss="sigmoid", schedule__total_steps=1)
    train_and_evaluate(config, tmp_path / "run")
    Image.new("L", (8, 8), 90).save(tmp_path / "a.png")
    flags = [f"--workdir={tmp_path / 'run'}", "--top=10", "--json"]
    capsys.readouterr()
    assert main(["predict", *flags, str(tmp_path / "a.png")]) == 0
    output = capsys.readouterr()
    (found,) = json.loads(output.out)
    # The zero head has hardly moved: each class by itself is about as likely as not.
    probabilities = [entry["probability"] for entry in found["classes"]]
    np.testing.assert_allclose(probabilities, 0.5, atol=0.05)


def test_images_that_other_sets_lack_are_reported_too(workdir, monkeypatch):
    open_evaluation = evaluate.open_evaluation

    def lacking(config, names, *, skipped):
        skipped[f"{config.data.eval.split}/1.jpg"] += 1
        return open_evaluation(config, names, skipped=skipped)

    monkeypatch.setattr(evaluate, "open_evaluation", lacking)
    found = evaluate_workdir(workdir)
    assert found["skipped"] == ["test/1.jpg", "test[:50%]/1.jpg"]
