"""The command line from end to end, in one process."""

import json
import runpy
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.train.digits import tiny_config
from vit_jax import config as configuration
from vit_jax.__main__ import COMMANDS, main
from vit_jax.train.loop import train_and_evaluate


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train_and_evaluate(tiny_config(), folder)
    return folder


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    (folder / "deeper").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 12, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "colour.jpg")
    Image.fromarray(pixels[:8, :8, 0]).save(folder / "deeper" / "grey.PNG")
    return folder


def test_every_command_has_help_with_examples(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        assert f"vit_jax {command}" in capsys.readouterr().out


def test_the_originals_module_is_the_training_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["main.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("vit_jax.main", run_name="__main__")
    assert ended.value.code == 0
    assert "usage: vit_jax train" in capsys.readouterr().out


def test_an_unknown_recipe_lists_the_recipes(tmp_path, capsys):
    status = main(["train", "--config=digit", f"--workdir={tmp_path}"])
    assert status == 2
    error = capsys.readouterr().err
    assert "--config=digit is neither a Python file nor a recipe" in error
    assert "cifar10_tiny, deit, digits" in error


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "no attribute 'get_config'"),
        ("import absent_module", "can't be used"),
        ("def get_config(:", "can't be used (SyntaxError)"),
        (
            "from vit_jax.config import default_config\n"
            "def get_config():\n  c = default_config()\n  c.model.widht = 3\n"
            "  return c",
            "Did you mean",
        ),
        ("def get_config(): return {}", "must return"),
        ("def get_config(): return [][0]", "IndexError"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("open('/absent/labels.txt')", "recipe.py can't be used"),
        (
            "from ml_collections import ConfigDict\n"
            "def get_config(): return ConfigDict({'seed': 1})",
            "lacks model.variant",
        ),
    ],
)
def test_a_recipe_that_can_not_be_used_is_refused(tmp_path, capsys, source, message):
    recipe = tmp_path / "recipe.py"
    recipe.write_text(source)
    assert main(["train", f"--config={recipe}", f"--workdir={tmp_path}/w"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


def test_all_faults_of_the_command_line_come_together(tmp_path, capsys):
    status = main(
        [
            "train",
            "--config=digits",
            f"--workdir={tmp_path}/w",
            "--config.model.dept=3",
            "--config.data.train.batch_size=100",
            "--config.schedule.warmup_steps=many",
        ]
    )
    assert status == 2
    error = capsys.readouterr().err
    assert "model.dept is not a configuration key; did you mean model.depth?" in error
    assert error.startswith("error: 3 faults:\n  1. ")
    assert "schedule.warmup_steps=many must be a whole number" in error
    assert "data.train.batch_size=100 must be a multiple of the 8 devices" in error
    assert not (tmp_path / "w").exists()


def test_config_lists_recipes_and_shows_resolved_values(capsys):
    assert main(["config"]) == 0
    listed = capsys.readouterr().out
    assert "  digits\n" in listed
    assert "schedule.base_learning_rate = 0.001" in listed
    assert main(["config", "digits", "--config.seed=3"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert "differs from the default" in head
    shown = dict(line[2:].split(" = ") for line in lines)
    assert shown["seed"] == "3"
    assert list(shown) == [key.name for key in configuration.KEYS]
    marked = {line[2:].split(" = ")[0] for line in lines if line.startswith("* ")}
    assert {"seed", "model.variant"} <= marked
    assert "optimizer.beta1" not in marked


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().out


def test_config_refuses_faults_and_overrides_without_a_recipe(capsys):
    assert main(["config", "digits", "--config.sead=3"]) == 2
    assert "did you mean seed?" in capsys.readouterr().err
    assert main(["config", "--config.seed=3"]) == 2
    assert "needs a recipe" in capsys.readouterr().err


def test_predict_prints_a_table_of_files_and_folders(workdir, images, capsys):
    assert main(["predict", f"--workdir={workdir}", "--top=2", str(images)]) == 0
    output = capsys.readouterr()
    assert output.err.count("colour.jpg have colours and become grey") == 1
    lines = output.out.splitlines()
    assert [line.split()[0] for line in lines] == [
        str(images / "colour.jpg"),
        str(images / "deeper" / "grey.PNG"),
    ]
    assert all(line.count("%") == 2 for line in lines)


def test_predict_as_json_gives_probabilities_that_sum_to_one(workdir, images, capsys):
    assert (
        main(["predict", f"--workdir={workdir}", "--top=10", "--json", str(images)])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [len(row["classes"]) for row in found] == [10, 10]
    for row in found:
        probabilities = [entry["probability"] for entry in row["classes"]]
        assert probabilities == sorted(probabilities, reverse=True)
        np.testing.assert_allclose(sum(probabilities), 1, rtol=1e-5)


def test_predict_names_unreadable_files_and_goes_on(workdir, images, capsys):
    (images / "broken.png").write_text("hello")
    assert main(["predict", f"--workdir={workdir}", str(images)]) == 1
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 2
    assert f"error: {images}/broken.png can't be read" in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.png"], "absent.png does not exist"),
        (["--top=0", "."], "--top=0 must be 1 or more"),
        (["--config.seed=1", "."], "predict takes no --config keys"),
    ],
)
def test_predict_refuses_what_it_can_not_do(
    workdir, tmp_path, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", f"--workdir={workdir}", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_is_no_workdir_is_refused(tmp_path, images, capsys):
    for command in (["predict", str(images)], ["evaluate"]):
        assert main([*command, f"--workdir={tmp_path}"]) == 2
        assert "is not the workdir of a training run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("classes.txt", ""),
        ("preprocessing.json", "{}"),
        ("preprocessing.json", "[]"),
        ("config.json", "{}"),
        (
            "config.json",
            '{"model": {"num_classes": 10}, "train": {"compute_dtype": "x"}}',
        ),
    ],
)
def test_a_damaged_file_of_a_workdir_is_named(
    workdir, tmp_path, images, capsys, file, text
):
    copied = tmp_path / "copied"
    shutil.copytree(workdir, copied)
    (copied / file).write_text(text)
    assert main(["predict", f"--workdir={copied}", str(images)]) == 2
    assert file in capsys.readouterr().err


def test_evaluate_gives_the_figures_of_the_journal(workdir, capsys):
    assert main(["evaluate", f"--workdir={workdir}", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    last = json.loads((workdir / "metrics.jsonl").read_text().splitlines()[-1])
    assert figures["step"] == last["step"] == 6
    assert figures["accuracy"] == last["eval/accuracy"]
    np.testing.assert_allclose(figures["loss"], last["eval/loss"], rtol=1e-6)


@pytest.mark.parametrize("batch_size", [7, 360, 1000])
def test_evaluate_counts_every_image_at_any_batch_size(workdir, capsys, batch_size):
    flags = [f"--workdir={workdir}", "--json", f"--batch_size={batch_size}"]
    assert main(["evaluate", *flags, "--split=train"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 1437


def test_evaluate_on_other_data(workdir, tmp_path, capsys):
    for name in ("3", "7"):
        (tmp_path / "test" / name).mkdir(parents=True)
        Image.new("L", (8, 8), 30).save(tmp_path / "test" / name / "a.png")
    assert main(["evaluate", f"--workdir={workdir}", f"--data={tmp_path}"]) == 0
    assert "2 images of" in capsys.readouterr().out
    (tmp_path / "test" / "eleven").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "test" / "eleven" / "a.png")
    assert main(["evaluate", f"--workdir={workdir}", f"--data={tmp_path}"]) == 2
    assert "eleven" in capsys.readouterr().err


def test_evaluate_takes_no_config_keys(workdir, capsys):
    assert main(["evaluate", f"--workdir={workdir}", "--config.seed=1"]) == 2
    assert "evaluate takes no --config keys" in capsys.readouterr().err


def test_a_workdir_that_can_not_be_written_is_said_before_the_first_step(
    tmp_path, capsys
):
    (tmp_path / "file").write_text("")
    status = main(["train", "--config=digits", f"--workdir={tmp_path}/file/run"])
    assert status == 2
    error = capsys.readouterr().err
    assert "can't be written" in error
    assert "compiling" not in error


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["confg"], "did you mean config?"),
        (["train", "--confg=digits", "--workdir=w"], "did you mean --config?"),
        (["predict", "--workdir=w", "--tpo=1", "a.png"], "did you mean --top?"),
        (["data", "shwo"], "did you mean show?"),
        (["data", "show", "--config=digits", "--imges=1"], "did you mean --images?"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_one_that_was_meant(capsys, written, meant):
    with pytest.raises(SystemExit, match="2"):
        main(written)
    assert meant in capsys.readouterr().err


def test_the_traceback_is_offered_for_errors_of_libraries_alone(
    tmp_path, capsys, monkeypatch
):
    main(["evaluate", f"--workdir={tmp_path}"])
    assert "VIT_JAX_TRACEBACK" not in capsys.readouterr().err
    monkeypatch.setattr(
        "vit_jax.train.evaluate.evaluate_workdir", lambda *_, **__: json.loads("{")
    )
    main(["evaluate", "--workdir=any"])
    assert "VIT_JAX_TRACEBACK=1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [MemoryError("no room"), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")],
)
def test_too_little_memory_is_answered_with_the_keys_to_change(
    monkeypatch, capsys, error
):
    def run(*arguments):
        raise error

    monkeypatch.setattr("vit_jax.cli.predict.run", run)
    assert main(["predict", "--workdir=w", "x.png"]) == 1
    said = capsys.readouterr().err
    assert "not enough memory" in said and "train.accumulation_steps" in said
    assert f"error: {error}" in said


def test_auto_without_weights_is_one_fault(tmp_path, capsys):
    flags = [f"--workdir={tmp_path}/w", "--config.data.source=digits"]
    assert main(["train", "--config=finetune_folder", *flags]) == 2
    said = capsys.readouterr().err
    assert "takes the model from init.weights, which is empty" in said
    assert "does not exist" not in said


def test_traceback_on_request(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_JAX_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError, match="is not the workdir"):
        main(["evaluate", f"--workdir={tmp_path}"])
