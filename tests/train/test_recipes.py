"""Every recipe at its own size, as shapes, and two of its steps at a small one."""

import jax
import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import write_folder
from vit_jax.cli.recipes import load_config, recipe_names
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import assemble
from vit_jax.train.inputs import open_evaluation, open_inputs
from vit_jax.train.state import create_state

ARGUMENTS = [
    *recipe_names(),
    "vit_pretrain:data=imagenet21k,variant=L/16",
    "vit_pretrain:variant=R50+B/16",
    "vit_finetune:data=imagenet,variant=L/32",
    "augreg:variant=Ti/16,level=strong2,data=imagenet21k,dropout=0.1",
    "deit:variant=B/16",
    "small_data:size=tiny,image_size=64",
]
SMALL = {"width": 32, "depth": 1, "num_heads": 2, "mlp_dim": 32}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for split in ("train", "validation", "test"):
        for name in "abcdefghij":
            place = folder / split / name
            place.mkdir(parents=True)
            pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(place / "1.png")
    return str(folder)


def config_of(recipe, pictures):
    """The recipe's config on ten pictures, made long enough for any warmup."""
    config, _ = load_config(recipe, {})
    if config.data.source != "digits":
        config.data.source = pictures
    if config.data.train.split.startswith("all"):
        config.data.train.split, config.data.eval.split = "train", "validation"
    if config.model.variant == "auto":
        config.model.variant = "S/16"
    # Its batches are features, not images; tests/train/test_features.py has them.
    config.train.cache_features = False
    config.data.workers = 0
    config.schedule.total_epochs = None
    config.schedule.total_steps = 1_000_000
    return config


@pytest.mark.parametrize(
    "recipe", ["vit_pretrain:data=imagenet21k", "augreg:data=imagenet21k", "small_data"]
)
def test_a_recipe_for_a_folder_of_class_folders_opens_one(recipe, tmp_path):
    write_folder(tmp_path, {"cat": 60, "dog": 60})
    config, faults = load_config(recipe, {"data.source": str(tmp_path)})
    assert faults == []
    inputs = open_inputs(config)
    assert inputs.class_names == ("cat", "dog")
    judged = open_evaluation(config, inputs.class_names).source
    assert inputs.num_examples + len(judged) == 120
    assert set(judged.labels()) <= {0, 1}
    assert 1 <= len(judged) <= 12


def abstract_batch(parts):
    size = parts.config.data.train.batch_size
    where = meshes.batch_sharding(parts.mesh)
    shapes = {
        "image": ((size, *parts.image_shape), np.uint8),
        "label": ((size,), np.int32),
        "weight": ((size,), np.float32),
    }
    return {
        name: jax.ShapeDtypeStruct(*shape, sharding=where)
        for name, shape in shapes.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ARGUMENTS)
def test_the_step_of_a_recipe_can_be_traced_at_its_own_size(recipe, pictures):
    parts = assemble(config_of(recipe, pictures))
    following, figures = jax.eval_shape(
        parts.train_step, parts.state, abstract_batch(parts)
    )
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), following) == (
        jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), parts.state)
    )
    assert figures["loss"].shape == ()


def reduced(config):
    if config.model.patch_size is None:
        config.model.image_size = (32,)
    config.model.update(SMALL)
    if config.model.representation_size:
        config.model.representation_size = SMALL["width"]
    config.data.train.batch_size = config.data.eval.batch_size = 16
    config.schedule.total_steps = 2
    for unit in ("steps", "epochs", "examples", "share"):
        config.schedule[f"warmup_{unit}"] *= 0
    return config


@pytest.mark.slow
@pytest.mark.parametrize("recipe", recipe_names())
def test_two_steps_of_a_recipe_at_a_small_size_move_the_weights(recipe, pictures):
    parts = assemble(reduced(config_of(recipe, pictures)))
    state = create_state(parts.init, parts.optimizer, parts.state, seed=0)
    before = jax.device_get(state.params)
    batches = parts.inputs.train_batches(0)
    for _ in range(2):
        batch = meshes.put_batch(next(batches), parts.mesh)
        state, figures = parts.train_step(state, batch)
    batches.close()
    assert int(state.step) == 2
    assert int(state.nonfinite_steps) == 0
    assert all(np.isfinite(value) for value in jax.tree.leaves(figures))
    moved = jax.tree.map(
        lambda old, new: not np.array_equal(old, new), before, state.params
    )
    assert all(jax.tree.leaves(moved["head"]))
