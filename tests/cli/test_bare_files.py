"""Bare files in the place of a workdir: what is said of them, and what may be said."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.convert.test_official import weights_of
from vit_jax.__main__ import main
from vit_jax.convert.target import write

ASSUMED = "note: the file doesn't say what images it takes: mean 0.5, std 0.5, stretch"
SIZES = {"width": 16, "depth": 1, "num_heads": 2, "mlp_dim": 16, "patch_size": 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """x.npz, zeros.npz whose head is zero, x.pth of timm's names, and image.png."""
    place = tmp_path_factory.mktemp("bare")
    weights = weights_of("grey images", gelu="exact", norm_epsilon=1e-5, **SIZES)
    write(weights, place / "x.pth", "timm")
    write(weights, place / "x.npz", "npz")
    for name in ("head/kernel", "head/bias"):
        weights.params[name] = np.zeros_like(weights.params[name])
    write(weights, place / "zeros.npz", "npz")
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32), np.uint8)
    Image.fromarray(pixels).save(place / "image.png")
    return place


def test_predict_says_its_notes_beside_the_predictions(folder, capsys):
    """Case 15: a head of zeros has no opinion, and says so."""
    flags = ["--json", "--top=10", str(folder / "image.png")]
    assert main(["predict", f"--workdir={folder}/x.npz", *flags]) == 0
    said = capsys.readouterr()
    assert said.err.count(ASSUMED) == 1 and "all zeros" not in said.err
    assert len(json.loads(said.out)[0]["classes"]) == 10
    assert main(["predict", f"--workdir={folder}/zeros.npz", *flags]) == 0
    said = capsys.readouterr()
    assert said.err.count("the head is all zeros") == 1
    (row,) = json.loads(said.out)
    assert row["classes"][0]["class"] == "class 0"
    probabilities = [entry["probability"] for entry in row["classes"]]
    np.testing.assert_allclose(-np.log(probabilities), np.log(10), rtol=1e-6)


def test_probe_says_its_notes_beside_the_table(folder, capsys):
    flags = ["--data=digits", "--train_split=train[:200]", "--split=test[:50]"]
    flags += ["--shots=1", "--seeds=1", "--json"]
    assert main(["probe", f"--workdir={folder}/x.npz", *flags]) == 0
    said = capsys.readouterr()
    assert said.err.count(ASSUMED) == 1
    assert [row["shots"] for row in json.loads(said.out)] == [1]


def test_predict_is_told_what_a_file_leaves_open(folder, capsys):
    flags = [f"--workdir={folder}/x.pth", "--json", str(folder / "image.png")]
    assert main(["predict", *flags]) == 2
    assert "num_heads" in capsys.readouterr().err
    found = []
    for epsilon, mean in (("1e-5", "0.5"), ("1e-1", "0.5"), ("1e-5", "0.1")):
        words = ["--num_heads=2", "--gelu=exact", f"--norm_epsilon={epsilon}"]
        words += ["--image_size=32", f"--mean={mean}", "--std=0.5"]
        assert main(["predict", *words, *flags]) == 0
        found.append(capsys.readouterr().out)
    assert len(set(found)) == 3


def test_visualize_is_told_what_a_file_leaves_open(folder, tmp_path, monkeypatch):
    told = {}

    def write_pictures(*places, **words):
        told.update(words)
        raise ValueError("enough")

    monkeypatch.setattr("vit_jax.train.pictures.write_pictures", write_pictures)
    words = ["--num_heads=2", "--gelu=exact", "--norm_epsilon=1e-5", "--mean=0.25"]
    words += ["--std", "0.1", "0.2", "0.3", "--image_size", "32", "48"]
    assert main(["visualize", f"--workdir={folder}/x.pth", *words]) == 2
    assert told["num_heads"] == 2 and told["gelu"] == "exact"
    assert told["norm_epsilon"] == 1e-5 and told["image_size"] == [32, 48]
    assert told["mean"] == [0.25] and told["std"] == [0.1, 0.2, 0.3]
    assert "variant" not in told


@pytest.mark.slow
def test_visualize_draws_a_bare_file(folder, tmp_path, capsys):
    flags = ["visualize", f"--workdir={folder}/x.pth", f"--output={tmp_path}/report"]
    assert main(flags) == 2
    assert "num_heads" in capsys.readouterr().err
    words = ["--num_heads=2", "--gelu=exact", "--norm_epsilon=1e-5"]
    assert main([*flags, *words]) == 0
    assert "report.html with filters, position" in capsys.readouterr().out
