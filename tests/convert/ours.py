"""Our side of a comparison: logits of converted weights."""

from functools import partial

import jax
import numpy as np
from etils import epath

from vit_jax import trees
from vit_jax.convert.layout import build
from vit_jax.convert.writing import write_arrays


@partial(jax.jit, static_argnums=0)
def _apply(model, params, images):
    return model.apply({"params": params}, images)


def logits_of(weights, images):
    """What our model gives for images, compiled once for each kind of model."""
    params = trees.unflatten(weights.params)
    return np.asarray(_apply(build(weights.spec), params, images))


def assert_same_arrays(found, meant):
    """Equal names, types, shapes and bits."""
    assert found.keys() == meant.keys()
    for name, array in meant.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].flags.c_contiguous, name


def put(file, kind, arrays, metadata=None):
    """Writes a file of named arrays; gives its path."""
    write_arrays(epath.Path(file), kind, arrays, metadata)
    return file
