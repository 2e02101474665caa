"""Name, shape, type, weight decay and partition of each parameter, as text.

After a wanted change: VIT_JAX_UPDATE_GOLDEN=1 .venv/bin/python -m pytest tests/golden
"""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import vit_jax
from vit_jax import trees
from vit_jax.train import mesh as meshes
from vit_jax.train.optimizer import DECAYED

FOLDER = Path(__file__).parent / "parameters"
UPDATE = bool(os.environ.get("VIT_JAX_UPDATE_GOLDEN"))

MODELS = {
    "cifar10_tiny": ("cifar10_tiny", {"depth": 1}, (32, 32)),
    "Ti_16_swiglu_map": (
        "Ti/16",
        {"depth": 1, "mlp": "swiglu", "pool": "map", "num_registers": 4},
        (224, 224),
    ),
    "R50_B_16": ("R50+B/16", {"depth": 1, "stem_units": (1, 1)}, (224, 224)),
    "R50x1": ("R50x1", {"stem_units": (1, 1)}, (224, 224)),
    "B_16_pretraining": ("B/16", {"depth": 1, "representation_size": 768}, (224, 224)),
}


def described(name, fields, image_shape):
    model = vit_jax.create_model(name, **fields)
    images = jax.ShapeDtypeStruct((1, *image_shape, 3), jnp.float32)
    params = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
    mesh = meshes.make_mesh(data=2, fsdp=2, tensor=2)
    decayed = trees.flatten(trees.mask(params, [DECAYED]))
    for parameter, leaf in sorted(trees.flatten(params).items()):
        spec = meshes.partition_spec(parameter, leaf.shape, mesh)
        shown = "decayed" if decayed[parameter] else "kept"
        yield f"{parameter} {list(leaf.shape)} {leaf.dtype} {shown} {tuple(spec)}\n"


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_the_golden_text(name):
    text = "".join(described(*MODELS[name]))
    file = FOLDER / f"{name}.txt"
    if UPDATE:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text(), "see the docstring of this file"
