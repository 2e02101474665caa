"""Fine-tuning: a run that starts from the weights of another."""

import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from tests.train.digits import tiny_config
from vit_jax import config as configuration
from vit_jax import trees
from vit_jax.checkpoint import complete_steps
from vit_jax.convert.layout import Weights, describe, shapes_of
from vit_jax.convert.target import write
from vit_jax.models.described import build_model
from vit_jax.models.spec import ResNetSpec, VitSpec
from vit_jax.models.variants import resolve
from vit_jax.train import initial
from vit_jax.train import optimizer as optimizers
from vit_jax.train.assemble import assemble
from vit_jax.train.loop import train_and_evaluate
from vit_jax.weights import read_weights


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A finished run on digits of 8 pixels whose head is not zero."""
    folder = tmp_path_factory.mktemp("pretrained")
    config = tiny_config(
        schedule__total_steps=2,
        checkpoint__best_metric="eval/loss",
        checkpoint__best_mode="min",
        schedule__base_learning_rate=1e-2,
    )
    train_and_evaluate(config, folder)
    return folder


def finetuning(pretrained, **changes):
    changes = {"init__weights": str(pretrained), "schedule__total_steps": 2} | changes
    return tiny_config(**changes)


def initial_of(config):
    return assemble(config).initial


def test_all_weights_are_taken_over_where_nothing_differs(pretrained):
    start = initial_of(finetuning(pretrained))
    loaded = trees.flatten(vit_jax.load(pretrained).params)
    found = trees.flatten(start.params)
    assert found.keys() == loaded.keys()
    for name, leaf in found.items():
        np.testing.assert_array_equal(leaf, loaded[name])
    assert start.lines == (f"init.weights={pretrained}: loaded 24 parameters",)


def test_another_size_resizes_the_table_and_reset_starts_a_new_head(pretrained):
    config = finetuning(pretrained, model__image_size=(16, 12), init__head="reset")
    start = initial_of(config)
    assert start.params["position"]["table"].shape == (1, 1 + 4 * 3, 16)
    assert "head" not in start.params
    text = "\n".join(start.lines)
    assert "resized position/table: grid 2 x 2 -> 4 x 3" in text
    assert "reset head (10 -> 10 classes)" in text


def test_other_preprocessing_is_noted(pretrained):
    start = initial_of(finetuning(pretrained, data__std=(0.25,)))
    assert start.lines[-1] == (
        "note: data.std is 0.25 here, and 0.5 where the weights were trained"
    )


def test_auto_keeps_a_head_of_the_same_names_only(pretrained, tmp_path):
    """Case 13: the rule for the head is explicit."""
    kept = initial_of(finetuning(pretrained))
    assert "head" in kept.params
    renamed = tmp_path / "renamed"
    shutil.copytree(pretrained, renamed)
    (renamed / "classes.txt").write_text("".join(f"n{k}\n" for k in range(10)))
    assert "head" not in initial_of(finetuning(renamed)).params
    assert "head" in initial_of(finetuning(renamed, init__head="keep")).params
    more = finetuning(pretrained, model__num_classes=12)
    assert "reset head (10 -> 12 classes)" in "\n".join(initial_of(more).lines)


def test_auto_takes_the_model_from_the_weights(pretrained):
    config = configuration.default_config()
    config.update_from_flattened_dict(
        {
            "model.variant": "auto",
            "model.image_size": (8,),
            "model.channels": 1,
            "init.weights": str(pretrained),
            "data.source": "digits",
            "data.train.batch_size": 16,
            "data.eval.batch_size": 16,
            "schedule.total_steps": 2,
        }
    )
    settled = assemble(config).config.model
    assert (settled.variant, settled.width, settled.patch_size) == ("Ti/16", 16, 4)


def test_weights_of_no_known_name_take_the_nearest(pretrained, monkeypatch):
    unnamed = dataclasses.replace(vit_jax.load(pretrained), variant=None)
    monkeypatch.setattr(initial, "load", lambda path, **_: unnamed)
    config = finetuning(pretrained, model__variant="auto", model__gelu=None)
    for key in ("width", "depth", "num_heads", "mlp_dim", "patch_size"):
        config.model[key] = None
    settled = assemble(config).config.model
    assert (settled.width, settled.patch_size, settled.depth) == (16, 4, 1)


@pytest.mark.parametrize("spec", [VitSpec, ResNetSpec])
def test_a_key_says_every_field_of_a_model(spec):
    keys = {key.name for key in configuration.KEYS}
    assert {f"model.{field.name}" for field in dataclasses.fields(spec)} <= keys


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init__weights": "absent"}, "init.weights=absent: .*absent is "),
        ({"model__variant": "auto", "init__weights": ""}, "model.variant=auto takes"),
        (
            {"init__head": "keep", "model__num_classes": 12},
            "init.head=keep: the weights' head has 10 classes and the run 12",
        ),
        (
            {"model__width": 24},
            r"attention/key/bias is \[2, 8\] in the weights, \[2, 12",
        ),
        ({"model__depth": 2}, "block_1/mlp/out/kernel .* is missing in the weights"),
        ({"model__gelu": "exact"}, "model.gelu=exact must be tanh, as in init.weights"),
        ({"checkpoint__best_metric": "eval/f1"}, "checkpoint.best_metric=eval/f1 must"),
        ({"evals__sets": (("x", "absent", "test"),)}, "evals.sets x=absent:test: "),
    ],
)
def test_what_does_not_go_together_is_said_before_training(
    pretrained, changes, message
):
    with pytest.raises(ValueError, match=message):
        assemble(finetuning(pretrained, **changes))


@pytest.mark.slow
def test_a_run_starts_from_the_weights_says_so_and_resumes_without_them(
    pretrained, tmp_path, capsys
):
    moved = tmp_path / "moved"
    shutil.copytree(pretrained, moved)
    config = finetuning(
        moved / "best",
        model__variant="auto",
        model__image_size=(16,),
        schedule__base_learning_rate=0.0,
        schedule__total_steps=1,
        init__head="reset",
    )
    train_and_evaluate(config, tmp_path / "run")
    said = capsys.readouterr().err
    assert "grid 2 x 2 -> 4 x 4" in said
    assert "reset head (10 -> 10 classes)" in said
    before = vit_jax.load(moved, "best").params
    after = vit_jax.load(tmp_path / "run").params
    np.testing.assert_array_equal(
        after["stem"]["projection"]["kernel"], before["stem"]["projection"]["kernel"]
    )
    assert not np.any(after["head"]["kernel"])
    shutil.rmtree(moved)
    config.schedule.total_steps = 2
    train_and_evaluate(config, tmp_path / "run")
    said = capsys.readouterr().err
    assert "going on from the checkpoint of step 1" in said
    assert "init.weights=" not in said.replace("changed since", "")
    assert complete_steps(tmp_path / "run" / "checkpoints")[-1] == 2
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored["model"]["variant"] == "Ti/16"


def test_a_frozen_backbone_of_b16_trains_the_head_alone():
    model = vit_jax.create_model("B/16", num_classes=10)
    images = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    params = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
    trained = optimizers.trained_mask(params, ("(?!head/).*",))
    flat = trees.flatten(params)
    moving = {name: flat[name] for name, on in trees.flatten(trained).items() if on}
    assert sum(int(np.prod(leaf.shape)) for leaf in moving.values()) == 7690


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("x.npz", "npz"),
        ("x.pth", "timm"),
        ("x", "timm"),
        ("hf", "huggingface"),
        ("x.safetensors", "timm"),
    ],
)
def test_any_layout_is_taken_over_and_its_notes_are_lines(
    pretrained, name, layout, tmp_path
):
    write(read_weights(pretrained), tmp_path / name, layout)
    said = {"init__weights": str(tmp_path / name)}
    loaded = vit_jax.load(tmp_path / name, **bare(name, pretrained))
    config = finetuning(pretrained, model__num_classes=10, **said)
    start = initial.fit(
        config, loaded, build_of(config), vit_jax.load(pretrained).class_names
    )
    meant = trees.flatten(vit_jax.load(pretrained).params)
    for key, leaf in trees.flatten(start.params).items():
        np.testing.assert_array_equal(leaf, meant[key])
    for note in loaded.notes:
        assert f"init.weights={tmp_path / name}: note: {note}" in start.lines


def bare(name, pretrained):
    """What a bare file can't say."""
    if "." not in name or name.endswith(".safetensors"):
        return {}
    spec = vit_jax.load(pretrained).spec
    fields = ("gelu", "norm_epsilon", "num_heads")
    return {field: getattr(spec, field) for field in fields}


def build_of(config):
    return build_model(config.model.to_dict(), num_classes=config.model.num_classes)


def test_a_variant_says_what_a_file_leaves_open(pretrained, tmp_path):
    spec = resolve("cifar10_tiny", {})
    size = (32, 32, 3)
    params = {n: np.ones(s, "f") for n, s in shapes_of(spec, size).items()}
    weights = Weights("orbax", spec, params, describe((32, 32)))
    write(weights, tmp_path / "x.pth", "timm")
    config = finetuning(pretrained, init__weights=str(tmp_path / "x.pth"))
    config.init.variant = "cifar10_tiny"
    found = initial.read(config, resumed=False)
    assert (found.spec.num_heads, found.spec.norm_epsilon) == (4, 1e-5)
    config.init.variant = "nonsense"
    with pytest.raises(ValueError, match="x.pth: variant=nonsense is no model"):
        initial.read(config, resumed=False)


def test_a_path_that_does_not_exist_is_said_to(tmp_path):
    config = tiny_config(init__weights=str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere.*the path does not exist"):
        initial.read(config, resumed=False)
