"""Models that articles write by hand, by tables of their own."""

import jax
import numpy as np
import pytest

from tests.convert.articles import ARTICLES
from tests.convert.peers import arrays_of, drawn, images_of, outputs
from vit_jax import create_model, trees
from vit_jax.convert.layout import shapes_of
from vit_jax.convert.rules import folds, to_ours, to_theirs
from vit_jax.models.variants import resolve


@pytest.mark.parametrize("name", ARTICLES)
def test_logits_equal_the_articles(name):
    make, rules, fields = ARTICLES[name]
    peer = drawn(make)
    count = sum(parameter.numel() for parameter in peer.parameters())
    assert name == "wrong scale" or count == 142_026
    shapes = shapes_of(resolve("cifar10_tiny", fields), (32, 32, 3))
    params = to_ours(rules, arrays_of(peer), shapes, source=name)
    images = images_of((32, 32))
    theirs = outputs(peer, images)
    model = create_model("cifar10_tiny", **fields)
    ours = jax.jit(model.apply)({"params": trees.unflatten(params)}, images)
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(np.asarray(ours), theirs, atol=1e-4)

    back = to_theirs(rules, params, layout=name)
    for key, array in arrays_of(peer).items():
        # A scale of one half is exact in binary.
        np.testing.assert_array_equal(back[key], array, err_msg=key)
    assert bool(folds(rules)) == (name == "wrong scale")
