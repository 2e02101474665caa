"""Tests vit_jax/layers/conv.py, against the original code's formulas restated."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.layers.conv import GroupNorm, StdConv


def test_kernel_is_standardised_with_epsilon_outside_the_root():
    x = jax.random.normal(jax.random.key(0), (1, 4, 6, 3))
    module = StdConv(5, 1, epsilon=0.1)
    variables = module.init(jax.random.key(1), x)
    kernel = np.asarray(variables["params"]["kernel"])
    kernel = kernel - kernel.mean(axis=(0, 1, 2))
    kernel = kernel / (kernel.std(axis=(0, 1, 2)) + 0.1)
    np.testing.assert_allclose(
        module.apply(variables, x), np.asarray(x) @ kernel[0, 0], atol=1e-5
    )


def test_a_filter_of_one_value_gives_zeros_without_an_epsilon_too():
    x = jax.random.normal(jax.random.key(0), (1, 4, 6, 3))
    params = {"kernel": jnp.ones((1, 1, 3, 5))}
    out = StdConv(5, 1, epsilon=0.0).apply({"params": params}, x)
    np.testing.assert_array_equal(out, 0)


def test_stride_two_rounds_odd_sides_up():
    x = jnp.zeros((1, 225, 224, 3))
    out = jax.eval_shape(StdConv(8, 7, stride=2).init_with_output, jax.random.key(0), x)
    assert out[0].shape == (1, 113, 112, 8)


def test_group_norm_normalises_each_image_and_group():
    x = 3 + 2 * jax.random.normal(jax.random.key(0), (2, 4, 6, 64))
    out, variables = GroupNorm(0.5).init_with_output(jax.random.key(1), x)
    groups = np.asarray(x).reshape(2, 24, 32, 2)
    mean = groups.mean(axis=(1, 3), keepdims=True)
    deviation = np.sqrt(groups.var(axis=(1, 3), keepdims=True) + 0.5)
    expected = ((groups - mean) / deviation).reshape(x.shape)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    halves = jnp.concatenate([x[..., :32], 5 * x[..., 32:]], axis=-1)
    fewer, _ = GroupNorm(0.0, groups=2).init_with_output(jax.random.key(1), halves)
    for half in (fewer[..., :32], fewer[..., 32:]):
        np.testing.assert_allclose(half.mean((1, 2, 3)), 0, atol=1e-5)
        np.testing.assert_allclose(half.std((1, 2, 3)), 1, atol=1e-4)
    zero = GroupNorm(zero=True).init(jax.random.key(1), x)["params"]
    assert not zero["scale"].any()
