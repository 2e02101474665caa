"""Small models with drawn weights, and images for them."""

import jax
import numpy as np

from tests.models.drawn import redraw
from vit_jax.models.factory import create_model

PREPROCESSING = {
    "image_size": [16, 24],
    "channels": 3,
    "resize": "center",
    "crop_fraction": 1.0,
    "interpolation": "bilinear",
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
}
GRID = (4, 6)


def tiny(**fields):
    """(model, params) of two layers, two heads and patches of 4 at 16 x 24 pixels."""
    sizes = {"width": 16, "depth": 2, "num_heads": 2, "mlp_dim": 16, "patch_size": 4}
    model = create_model("Ti/16", num_classes=5, **sizes, **fields)
    shape = jax.ShapeDtypeStruct((1, 16, 24, 3), np.float32)
    zeros = jax.eval_shape(model.init, jax.random.key(0), shape)["params"]
    return model, redraw(zeros, scale=0.3)


def images(count=2):
    """uint8 [count, 16, 24, 3]."""
    return np.random.default_rng(1).integers(0, 256, (count, 16, 24, 3), np.uint8)
