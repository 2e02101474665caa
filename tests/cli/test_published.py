"""`init.weights` with a published name, from the server to a run that trained."""

import re

import numpy as np
import pytest

import vit_jax
from tests.convert.ours import put
from tests.convert.server import serving
from tests.convert.test_official import weights_of
from tests.train.digits import tiny_config
from vit_jax.__main__ import main
from vit_jax.convert import published
from vit_jax.convert.target import encode
from vit_jax.train.assemble import assemble
from vit_jax.train.loop import train_and_evaluate

NAME = "augreg:Ti/16"


@pytest.fixture(scope="module")
def weights():
    """Of grey images of 32 pixels and 21 classes, as tiny as can be."""
    sizes = {"width": 16, "depth": 1, "num_heads": 2, "mlp_dim": 16, "patch_size": 8}
    return weights_of("grey images", num_classes=21, **sizes)


@pytest.fixture
def server(tmp_path, monkeypatch, weights):
    monkeypatch.setenv("VIT_JAX_CACHE", str(tmp_path / "cache"))
    arrays = encode(weights, "npz").arrays
    with serving(put(tmp_path / "served", "npz", arrays).read_bytes()) as running:
        monkeypatch.setattr(published, "_SERVER", running.url)
        yield running


def config_from_the_name():
    sizes = ("width", "depth", "num_heads", "mlp_dim", "patch_size")
    return tiny_config(
        init__weights=NAME,
        model__variant="auto",
        model__image_size=(16,),
        schedule__total_steps=1,
        schedule__base_learning_rate=0.0,
        **{f"model__{size}": None for size in sizes},
    )


@pytest.mark.slow
def test_a_run_starts_from_a_name_once_downloaded_and_then_offline(
    server, tmp_path, weights, capsys
):
    train_and_evaluate(config_from_the_name(), tmp_path / "run")
    said = capsys.readouterr().err
    assert f"init.weights={NAME}: " in said
    assert "resized position/table: grid 4 x 4 -> 2 x 2" in said
    assert "reset head (21 -> 10 classes)" in said
    (asked,) = server.asked
    assert re.fullmatch(r"/vit_models/augreg/Ti_16-i21k-[\w.-]*\.npz", asked)
    run = vit_jax.load(tmp_path / "run")
    assert run.step == 1 and run.spec.width == 16
    np.testing.assert_array_equal(
        run.params["stem"]["projection"]["kernel"],
        weights.params["stem/projection/kernel"],
    )
    server.shutdown()
    server.server_close()
    again = assemble(config_from_the_name()).initial.params
    np.testing.assert_array_equal(
        again["prefix"]["class_token"], weights.params["prefix/class_token"]
    )
    assert server.asked == [asked]


def test_offline_it_says_which_file_to_put_where_and_then_takes_it(
    server, tmp_path, monkeypatch, capsys
):
    server.shutdown()
    server.server_close()
    keys = [f"--config.init.weights={NAME}", "--config.model.variant=auto"]
    assert main(["train", "--config=digits", f"--workdir={tmp_path}/run", *keys]) == 2
    said = capsys.readouterr().err
    assert f"init.weights={NAME}: {server.url}vit_models/augreg/Ti_16-i21k-" in said
    place = re.search(r"download it elsewhere and put it at (\S+), or run this", said)[
        1
    ]
    assert place.startswith(str(tmp_path / "cache"))
    assert place.endswith(".npz") and not (tmp_path / "run").exists()
    with open(place, "wb") as file:
        file.write(server.content)
    assert vit_jax.load(NAME).spec.num_classes == 21
    assert server.asked == []
