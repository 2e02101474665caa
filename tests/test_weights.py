"""From a workdir to a model ready to use."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.train.digits import tiny_config
from vit_jax.models.adapt import resize_params
from vit_jax.models.described import (
    abstract_params,
    build_model,
    grid_of,
    trained_shape,
)
from vit_jax.models.variants import resolve
from vit_jax.train.loop import train_and_evaluate
from vit_jax.weights import make_logits


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train_and_evaluate(
        tiny_config(
            train__loss="sigmoid",
            evals__every_steps=2,
            checkpoint__best_metric="eval/loss",
            checkpoint__best_mode="min",
        ),
        folder,
    )
    return folder


def test_load_gives_model_weights_and_all_that_goes_with_them(workdir):
    loaded = vit_jax.load(workdir)
    assert loaded.step == 6
    assert loaded.class_names == tuple("0123456789")
    assert loaded.loss == "sigmoid"
    assert loaded.variant == "Ti/16"
    assert (loaded.spec.width, loaded.spec.depth) == (16, 1)
    assert loaded.grid == (2, 2)
    again = vit_jax.create_model(loaded.variant, **vars(loaded.spec))
    logits_of = make_logits(loaded.model, loaded.preprocessing)
    images = np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1)
    np.testing.assert_array_equal(
        logits_of(loaded.params, images),
        make_logits(again, loaded.preprocessing)(loaded.params, images),
    )


def test_a_checkpoint_is_named_by_step_or_path(workdir):
    by_step = vit_jax.load(workdir, 4)
    assert by_step.step == vit_jax.load(workdir, "4").step == 4
    by_path = vit_jax.load(workdir / "checkpoints" / "4")
    assert by_path.step == 4
    best = vit_jax.load(workdir, "best")
    assert vit_jax.load(workdir / "best").step == best.step
    assert vit_jax.load(workdir / "best" / str(best.step)).step == best.step
    for ours, theirs in zip(
        jax.tree.leaves(by_step.params), jax.tree.leaves(by_path.params), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("checkpoint", "error", "message"),
    [
        ("7", FileNotFoundError, "holds no checkpoint of step 7; there are 4, 6"),
        ("newest", ValueError, "checkpoint=newest must be latest, best or a step"),
    ],
)
def test_a_checkpoint_that_is_not_there_is_refused(workdir, checkpoint, error, message):
    with pytest.raises(error, match=message):
        vit_jax.load(workdir, checkpoint)


def test_a_run_without_a_best_or_any_checkpoint_says_so(workdir, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(workdir, copied)
    shutil.rmtree(copied / "best")
    with pytest.raises(FileNotFoundError, match="train with checkpoint.best_metric"):
        vit_jax.load(copied, "best")
    shutil.rmtree(copied / "checkpoints")
    with pytest.raises(FileNotFoundError, match="holds no complete checkpoint"):
        vit_jax.load(copied)
    with pytest.raises(FileNotFoundError, match="is not the workdir of a training run"):
        vit_jax.load(tmp_path / "absent")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", "{}", "is not the config of a run: it lacks"),
        ("config.json", "[", "config.json is damaged"),
        ("classes.txt", "", "classes.txt is damaged: it has 0 lines"),
        ("classes.txt", "a\n" * 11, "it has 11 lines for a model of 10 classes"),
        ("preprocessing.json", "{}", "preprocessing.json beside it is damaged"),
    ],
)
def test_damaged_files_are_named(workdir, tmp_path, file, text, message):
    copied = tmp_path / "copied"
    shutil.copytree(workdir, copied)
    (copied / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        vit_jax.load(copied)


def test_a_run_whose_model_has_fields_of_several_numbers_loads(tmp_path):
    config = tiny_config(
        model__variant="R50x1",
        model__stem_units=(1,),
        model__stem_width=32,
        schedule__total_steps=1,
        **{
            f"model__{key}": None
            for key in ("width", "depth", "num_heads", "mlp_dim", "patch_size")
        },
    )
    train_and_evaluate(config, tmp_path)
    assert vit_jax.load(tmp_path).spec.stem_units == (1,)


def test_a_config_of_an_older_release_still_loads(workdir, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(workdir, copied)
    config = json.loads((copied / "config.json").read_text())
    for group, key in (("schedule", "stages"), ("checkpoint", "best_metric")):
        del config[group][key]
    del config["init"]
    (copied / "config.json").write_text(json.dumps(config))
    assert vit_jax.load(copied).step == 6


SECTION = {"variant": "Ti/16", "width": 16, "depth": 1, "num_heads": 2, "mlp_dim": 16}


def test_the_image_shape_of_a_checkpoint_is_told_by_its_parameters():
    model = build_model(SECTION, num_classes=3)
    stored = {
        "/".join(str(entry.key) for entry in path): leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(
            abstract_params(model, (32, 48, 3))
        )
    }
    shapes = [(64, 96, 3), (32, 48, 3), (16, 24, 3)]
    assert trained_shape(stored, model, shapes[:2]) == (32, 48, 3)
    assert trained_shape(stored, model, shapes[:1]) == (64, 96, 3)


def test_weights_for_another_size_give_logits_there_and_back_nothing_changes():
    model = build_model(SECTION, num_classes=3)
    spec = resolve("Ti/16", {k: v for k, v in SECTION.items() if k != "variant"})
    params = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    params = params["params"]
    assert resize_params(params, spec, (2, 2), (2, 2)) is params
    larger = resize_params(params, spec, (2, 2), grid_of(model, (48, 64)))
    assert larger["position"]["table"].shape == (1, 1 + 3 * 4, 16)
    logits = jax.jit(model.apply)({"params": larger}, jnp.ones((2, 48, 64, 3)))
    assert logits.shape == (2, 3)
    assert grid_of(build_model({"variant": "R50x1"}, num_classes=3), (64, 64)) == (0, 0)
