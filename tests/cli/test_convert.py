"""Tests `vit_jax convert` from end to end."""

import json
import shutil

import numpy as np
import pytest
import torch

import vit_jax
from tests.train.digits import tiny_config
from vit_jax import trees
from vit_jax.__main__ import main
from vit_jax.cli.convert import _LAYOUTS
from vit_jax.convert.source import read
from vit_jax.convert.target import LAYOUTS
from vit_jax.train.loop import train_and_evaluate


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A run with a moving average of its weights, and a best checkpoint."""
    folder = tmp_path_factory.mktemp("run")
    config = tiny_config(
        train__ema_decay=0.5,
        evals__every_steps=2,
        checkpoint__best_metric="eval/loss",
        checkpoint__best_mode="min",
    )
    train_and_evaluate(config, folder)
    return folder


def test_the_command_offers_every_layout():
    assert _LAYOUTS == LAYOUTS


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("x.pth", "timm"),
        ("x.safetensors", "timm"),
        ("hf", "huggingface"),
        ("x.npz", "npz"),
        ("ours", "orbax"),
    ],
)
def test_a_run_goes_out_and_comes_back(workdir, name, layout, tmp_path, capsys):
    """Case 36: straight from the checkpoint, without its optimizer."""
    dest = tmp_path / name
    assert main(["convert", str(workdir), str(dest), f"--to={layout}"]) == 0
    said = capsys.readouterr().out
    spec = vit_jax.load(workdir).spec
    assert "10 classes, images 8 x 8, grid " in said
    assert f"pool {spec.pool}, GELU {spec.gelu}, epsilon " in said
    assert "read back, every array is equal" in said
    fields = {"gelu": spec.gelu, "norm_epsilon": spec.norm_epsilon}
    fields["num_heads"] = spec.num_heads
    back = vit_jax.load(dest, **(fields if dest.suffix else {}))
    run = vit_jax.load(workdir)
    size = (2, *run.preprocessing["image_size"], run.preprocessing["channels"])
    images = np.random.default_rng(0).normal(size=size).astype("f")
    logits = [m.model.apply({"params": m.params}, images) for m in (back, run)]
    np.testing.assert_allclose(*logits, atol=1e-6)
    if layout in ("huggingface", "orbax"):
        assert back.class_names == run.class_names


def test_dest_pth_is_read_by_torch(workdir, tmp_path):
    main(["convert", str(workdir), str(tmp_path / "x.pth"), "--to=timm"])
    state = torch.load(tmp_path / "x.pth", weights_only=True)
    assert all(torch.is_tensor(tensor) for tensor in state.values())
    assert {"cls_token", "blocks.0.attn.qkv.weight", "head.bias"} <= state.keys()


def test_nothing_is_overwritten_without_leave(workdir, tmp_path, capsys):
    dest = tmp_path / "x.npz"
    command = ["convert", str(workdir), str(dest), "--to=npz"]
    dest.write_text("mine")
    assert main(command) == 2
    assert "is there already; --overwrite replaces it" in capsys.readouterr().err
    assert dest.read_text() == "mine"
    assert main([*command, "--overwrite"]) == 0
    assert read(dest).layout == "npz"


def test_faults_are_said_and_leave_nothing(workdir, tmp_path, capsys):
    assert main(["convert", str(tmp_path / "no"), "x", "--to=timm"]) == 2
    assert "is not the workdir of a training run" in capsys.readouterr().err
    dest = tmp_path / "x"
    arguments = ["convert", str(workdir), str(dest), "--to=timm"]
    assert main([*arguments, "--config.model.width=3"]) == 2
    assert "convert takes no --config keys" in capsys.readouterr().err
    assert main([*arguments, "--variant=G/14"]) == 2
    assert "is no G/14; it has:" in capsys.readouterr().err
    assert main([*arguments, "--variant=nonsense"]) == 2
    assert "variant=nonsense is no model of vit_jax" in capsys.readouterr().err
    assert not dest.exists()


def test_a_run_is_never_replaced_by_what_comes_out_of_it(workdir, capsys):
    command = ["convert", str(workdir), str(workdir), "--to=orbax", "--overwrite"]
    assert main(command) == 2
    assert "which is read; give another DEST" in capsys.readouterr().err
    assert vit_jax.load(workdir).step == 6


def test_a_checkpoint_is_named_and_a_file_is_told_what_it_leaves_open(
    workdir, tmp_path
):
    bare, back = tmp_path / "x.pth", tmp_path / "y"
    main(["convert", str(workdir), str(bare), "--to=timm", "--checkpoint=4"])
    spec = vit_jax.load(workdir).spec
    words = [f"--gelu={spec.gelu}", f"--num_heads={spec.num_heads}"]
    words += ["--norm_epsilon=1e-5", "--mean=0.25", "--std=0.125", "--no_ema"]
    assert main(["convert", str(bare), str(back), "--to=orbax", *words]) == 0
    found = read(back)
    assert found.spec.norm_epsilon == 1e-5 and found.spec.gelu == spec.gelu
    assert (found.preprocessing["mean"], found.preprocessing["std"]) == (
        [0.25],
        [0.125],
    )
    table = np.asarray(vit_jax.load(workdir, 4).params["position"]["table"])
    np.testing.assert_array_equal(found.params["position/table"], table)


def test_a_files_model_may_be_named(workdir, tmp_path, capsys):
    bare = tmp_path / "x.pth"
    main(["convert", str(workdir), str(bare), "--to=timm"])
    dest = str(tmp_path / "y")
    assert main(["convert", str(bare), dest, "--to=orbax", "--variant=G/14"]) == 2
    assert "is no G/14; it has:" in capsys.readouterr().err


def test_latest_or_best_averaged_or_not_and_whatever_the_optimizer(workdir, tmp_path):
    """Case 36: weights alone come out, though the config's optimizer has changed."""
    other = tmp_path / "other"
    shutil.copytree(workdir, other)
    config = json.loads((other / "config.json").read_text())
    config["optimizer"]["name"] = "lamb"
    (other / "config.json").write_text(json.dumps(config))
    tables = []
    for number, flags in enumerate(([], ["--no_ema"], ["--checkpoint=best"])):
        dest = tmp_path / f"{number}.safetensors"
        assert main(["convert", str(other), str(dest), "--to=timm", *flags]) == 0
        checkpoint = "best" if flags == ["--checkpoint=best"] else "latest"
        meant = vit_jax.load(workdir, checkpoint, ema=flags != ["--no_ema"]).params
        found = read(dest).params
        for name, leaf in trees.flatten(meant).items():
            np.testing.assert_array_equal(found[name], np.asarray(leaf), err_msg=name)
        tables.append(found["position/table"])
    assert np.abs(tables[0] - tables[1]).max() > 0
