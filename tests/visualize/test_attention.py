"""Rollout, maps and how pools read tokens."""

import jax
import numpy as np
import pytest

from tests.models.drawn import redraw
from tests.visualize.models import PREPROCESSING, images, tiny
from vit_jax.layers import pooling
from vit_jax.layers.attention import attention_weights
from vit_jax.layers.position import Layout
from vit_jax.models.factory import create_model
from vit_jax.visualize import attention
from vit_jax.weights import make_logits


def test_two_uniform_layers_roll_out_as_the_article_says():
    """Case 37: rollout with and without identity."""
    layers = np.full((2, 3, 2, 2), 0.5)
    expected = [[0.625, 0.375], [0.375, 0.625]]
    np.testing.assert_allclose(attention.rollout(layers), expected)
    without = attention.rollout(layers, residual=False)
    np.testing.assert_allclose(without, np.full((2, 2), 0.5))


def test_the_last_layer_reads_what_the_first_has_mixed():
    # Token 0 reads token 1 in the last layer, which read token 2 in the first.
    first, last = np.eye(3)[None], np.eye(3)[None]
    first, last = first[:, [0, 2, 2]], last[:, [1, 1, 2]]
    found = attention.rollout([first, last], residual=False)
    np.testing.assert_array_equal(found[0], [0, 0, 1])


TOKENS = jax.random.normal(jax.random.key(0), (2, 27, 16))


@pytest.mark.parametrize(
    ("fields", "first", "expected"),
    [
        ({}, 3, [1, *[0] * 26]),
        ({"pool": "gap"}, 0, [1 / 27] * 27),
        ({"pool": "gap"}, 2, [0, 0, *[1 / 25] * 25]),
        ({"pool": "gap", "class_token": True, "pool_prefix": True}, 1, [1 / 27] * 27),
        ({"pool": "cls_gap"}, 2, [0.5, 0, *[1 / 50] * 25]),
        ({"pool": "distilled", "num_registers": 1}, 2, [0.5, 0.5, *[0] * 25]),
        ({"pool": "none"}, 1, [0, *[1 / 26] * 26]),
    ],
)
def test_a_pool_reads_the_tokens_that_it_averages(fields, first, expected):
    pool = create_model("Ti/16", **fields).pool
    found = attention.pool_reading(pool, {}, TOKENS, first)
    np.testing.assert_allclose(found, [expected] * 2, atol=1e-6)


@pytest.mark.parametrize("prefix", [False, True])
def test_a_learned_query_reads_with_the_weights_of_the_pool(monkeypatch, prefix):
    words = {"pool": "map", "class_token": True, "pool_prefix": prefix}
    pool = create_model("Ti/16", width=16, num_heads=2, mlp_dim=8, **words).pool
    shapes = jax.eval_shape(lambda key: pool.init(key, TOKENS, 1), jax.random.key(0))
    params = redraw(shapes, scale=0.3)
    used, real = [], pooling.dot_product_attention

    def recorded(query, key, value):
        used.append(attention_weights(query, key))
        return real(query, key, value)

    monkeypatch.setattr(pooling, "dot_product_attention", recorded)
    pool.apply(params, TOKENS, 1)
    (weights_BHNM,) = used
    found = attention.pool_reading(pool, params["params"], TOKENS, 1)
    patches = found if prefix else found[:, 1:]
    np.testing.assert_allclose(patches, weights_BHNM.mean(axis=1)[:, 0], rtol=1e-4)
    assert patches.max() > 1.1 * patches.min()
    assert np.all(found[:, 0] > 0) == prefix


@pytest.mark.parametrize(
    "fields",
    [
        {"scan": True, "remat": "full", "num_registers": 2},
        {"window_size": 2, "global_every": 2, "pool": "gap"},
    ],
)
def test_a_look_leaves_logits_as_they_are_and_its_rows_sum_to_1(fields):
    """Case 37: every layer's weights, and the same logits."""
    model, params = tiny(**fields)
    look = jax.jit(attention.make_look(model, PREPROCESSING))
    found = look(params, images())
    plain = jax.jit(make_logits(model, PREPROCESSING))(params, images())
    np.testing.assert_array_equal(found.logits, plain)
    tokens = 24 + attention.num_prefix(model)
    assert len(found.attention) == 2
    for weights in found.attention:
        assert weights.shape == (2, 2, tokens, tokens)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)


def test_a_planted_salient_patch_is_found_by_class_token_and_mean():
    layout = Layout(2, 3, 2)
    weights = np.full((1, 8, 8), 0.01)
    weights[..., 2 + 4] = 1  # row 1, column 1
    weights /= weights.sum(axis=-1, keepdims=True)
    for reading in (np.eye(8)[0], np.r_[0, 0, np.full(6, 1 / 6)]):
        rolled = attention.rollout_map([weights] * 3, reading, layout)
        assert np.unravel_index(rolled.argmax(), (2, 3)) == (1, 1)
        (head,) = attention.head_maps(weights, reading, layout)
        assert np.unravel_index(head.argmax(), (2, 3)) == (1, 1)
        np.testing.assert_allclose([rolled.sum(), head.sum()], 1)


def test_registers_are_left_out_of_maps():
    row = np.array([0.5, 0.2, 0.1, 0.0, 0.2, 0.0])
    found = attention.patch_map(row, Layout(2, 2, 2))
    np.testing.assert_allclose(found, [[1 / 3, 0], [2 / 3, 0]])
    nothing = attention.patch_map(np.array([1.0, 0, 0]), Layout(1, 2, 1))
    np.testing.assert_array_equal(nothing, 0)


def test_the_moved_share_is_1_where_nothing_stays():
    before, after = np.array([[0.75, 0.25]]), np.array([[0.25, 0.75]])
    assert attention.moved_share(before, before) == 0
    assert attention.moved_share(before, after) == 0.5
    assert attention.moved_share(np.eye(2)[:1], np.eye(2)[1:]) == 1
