"""Tests vit_jax/layers/windows.py and windowed attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.layers import windows
from vit_jax.layers.dot_product import dot_product_attention
from vit_jax.layers.position import Layout
from vit_jax.layers.windows import windowed_attention

# Two rows and three columns of patches in windows of 2 x 2, after one prefix token.
DRAWN = """
1111111
1110110
1110110
1001001
1110110
1110110
1001001
"""


def test_mask_is_the_drawn_one():
    drawn = [[char == "1" for char in line] for line in DRAWN.split()]
    np.testing.assert_array_equal(windows.window_mask((2, 3), 2, 1), drawn)


def test_partition_goes_row_by_row_and_merge_undoes_it():
    x = jnp.arange(2 * 3 * 5, dtype=jnp.float32).reshape(1, 3, 5, 1, 2) + 1
    cut = windows.partition(x, 2)
    assert cut.shape == (6, 4, 1, 2)
    np.testing.assert_array_equal(cut[1, 2], x[0, 1, 2])
    assert not cut[2, 1].any()
    np.testing.assert_array_equal(windows.merge(cut, 2, (3, 5)), x)


def test_padding_is_minus_infinity_and_absent_where_none_is_needed():
    assert windows.padding_bias((4, 6), 2) is None
    bias = windows.padding_bias((3, 2), 2)
    assert bias.shape == (2, 1, 1, 4)
    np.testing.assert_array_equal(bias[:, 0, 0], [[0] * 4, [0, 0, -np.inf, -np.inf]])


@pytest.mark.parametrize("grid", [(4, 4), (3, 5)])
@pytest.mark.parametrize("num_prefix", [0, 2])
def test_windows_are_full_attention_under_the_mask(grid, num_prefix):
    layout = Layout(*grid, num_prefix)
    shape = (2, num_prefix + grid[0] * grid[1], 3, 4)
    keys = jax.random.split(jax.random.key(0), 3)
    qkv = [jax.random.normal(key, shape) for key in keys]
    mask = windows.window_mask(grid, 2, num_prefix)
    bias = jnp.where(mask, 0, -jnp.inf)[None, None]

    @jax.jit
    def windowed(qkv):
        return windowed_attention(*qkv, layout, 2)

    @jax.jit
    def full(qkv):
        return dot_product_attention(*qkv, bias=bias)

    np.testing.assert_allclose(windowed(qkv), full(qkv), atol=1e-6)
    gradients = [
        jax.jit(jax.grad(lambda x, f=f: jnp.sum(f(x) ** 2)))(qkv)
        for f in (windowed, full)
    ]
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_bias_is_among_the_patches_of_a_window():
    layout, shape = Layout(2, 4, 1), (1, 9, 1, 4)
    keys = jax.random.split(jax.random.key(0), 4)
    qkv = [jax.random.normal(key, shape) for key in keys[:3]]
    bias = jax.random.normal(keys[3], (1, 1, 4, 4))
    index = np.mgrid[:2, :4]
    place = (index[0] % 2 * 2 + index[1] % 2).reshape(-1)
    full = np.zeros((9, 9), np.float32)
    full[1:, 1:] = bias[0, 0][np.ix_(place, place)]
    full = np.where(windows.window_mask((2, 4), 2, 1), full, -np.inf)[None, None]
    np.testing.assert_allclose(
        jax.jit(lambda qkv: windowed_attention(*qkv, layout, 2, bias=bias))(qkv),
        dot_product_attention(*qkv, bias=full),
        atol=1e-6,
    )
