"""Runs the commands of docs/training.md, at tiny size."""

import re
import shlex
from pathlib import Path

import pytest

from tests.data.pictures import write_folder
from tests.train.digits import tiny_config
from vit_jax.__main__ import main
from vit_jax.train.loop import train_and_evaluate

DOCUMENT = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
# What makes the commands small: two steps of eight images of 32 pixels.
SMALL = {
    "model.image_size": "32",
    "data.train.batch_size": "8",
    "data.eval.batch_size": "8",
    "schedule.total_epochs": "unset",
    "schedule.total_steps": "2",
    "schedule.warmup_steps": "0",
    "schedule.warmup_share": "0",
    "train.compute_dtype": "float32",
    "evals.every_steps": "1",
    "log.progress": "false",
    "log.tensorboard": "false",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with photographs and a pretrained run; the commands run in it."""
    for split, count in (("train", 10), ("val", 4)):
        write_folder(tmp_path / "photos" / split, {"cat": count, "dog": count})
    pretrained = tiny_config(
        model__channels=3,
        model__image_size=(16,),
        schedule__total_steps=1,
        checkpoint__every_steps=0,
    )
    train_and_evaluate(pretrained, tmp_path / "runs" / "pretrained")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small(arguments):
    """The arguments of a command that trains, made small."""
    changes = dict(SMALL)
    if "schedule.stages" in " ".join(arguments):
        arguments = [re.sub(r":\d+( |$)", r":8\1", word) for word in arguments]
    return [*arguments, *(f"--config.{key}={value}" for key, value in changes.items())]


@pytest.mark.slow
def test_every_command_runs(folder, capsys):
    ran = []
    for block in re.findall(r"```bash\n(.*?)```", DOCUMENT, re.DOTALL):
        for line in block.strip().splitlines():
            program, *arguments = shlex.split(line)
            assert program == "vit_jax"
            if arguments[0] in ("train", "study"):
                arguments = small(arguments)
            assert main(arguments) == 0, (line, capsys.readouterr().err)
            ran.append(arguments[0])
    assert len(ran) == 11
    assert set(ran) == {"data", "train", "evaluate", "predict", "probe", "study"}
    assert (folder / "confusion.csv").read_text().startswith("class,cat,dog\n")
    assert (folder / "runs" / "study" / "curve.png").exists()


def test_every_key_and_recipe_that_it_names_exists():
    from vit_jax import config as configuration
    from vit_jax.cli.recipes import recipe_names

    known = [key.name for key in configuration.KEYS]
    groups = "|".join({name.split(".")[0] for name in known})
    for name in re.findall(rf"\b((?:{groups})\.[a-z_.]+[a-z_])", DOCUMENT):
        if name.endswith((".json", ".csv", ".png", ".md")) or name == "data.eval":
            continue
        assert name in known, name
    for name in re.findall(r"--config=(\w+)", DOCUMENT):
        assert name in recipe_names()


@pytest.mark.slow
def test_a_folder_fine_tune_end_to_end_sorts_dark_from_bright(folder):
    """Weights of another run, another size, a new head: it learns what is easy."""
    import numpy as np
    from PIL import Image

    import vit_jax
    from vit_jax.cli.recipes import load_config
    from vit_jax.train.evaluate import evaluate_workdir

    random = np.random.default_rng(0)
    for split, count in (("train", 24), ("val", 8)):
        for name, level in (("dark", 60), ("bright", 190)):
            target = folder / "own" / split / name
            target.mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(level - 40, level + 40, (20, 28, 3), np.uint8)
                Image.fromarray(pixels).save(target / f"{number}.jpg")
    config, faults = load_config(
        "finetune_folder",
        {
            "init.weights": "runs/pretrained",
            "data.source": "own",
            "model.image_size": "24",
            "data.train.batch_size": "16",
            "data.eval.batch_size": "16",
            "schedule.total_epochs": "20",
            "schedule.base_learning_rate": "0.1",
            "evals.every_steps": "15",
            "log.progress": "false",
            "log.tensorboard": "false",
        },
    )
    result = train_and_evaluate(config, folder / "runs" / "own", faults=faults)
    assert result.finished
    best = evaluate_workdir(folder / "runs" / "own", checkpoint="best")
    assert best["accuracy"] == 1.0
    assert vit_jax.load(folder / "runs" / "own").class_names == ("bright", "dark")
