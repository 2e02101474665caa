"""Tests vit_jax/layers/patches.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.layers.patches import PatchEmbed, grid_shape, patchify, unpatchify


def test_patches_are_flat_by_row_column_channel():
    images = jnp.arange(2 * 4 * 6 * 3, dtype=jnp.float32).reshape(2, 4, 6, 3)
    patches = patchify(images, 2)
    assert patches.shape == (2, 2, 3, 12)
    np.testing.assert_array_equal(patches[1, 1, 2], images[1, 2:4, 4:6].reshape(-1))
    np.testing.assert_array_equal(unpatchify(patches, 2), images)


def test_strided_convolution_is_unfold_and_linear():
    images = jax.random.normal(jax.random.key(0), (2, 8, 12, 3))
    module = PatchEmbed(4, 16)
    variables = module.init(jax.random.key(1), images)
    kernel = variables["params"]["projection"]["kernel"]
    expected = patchify(images, 4) @ kernel.reshape(-1, 16)
    np.testing.assert_allclose(
        module.apply(variables, images), expected, rtol=1e-5, atol=1e-5
    )


def test_224_pixels_at_16_are_196_patches():
    assert grid_shape((224, 224), 16) == (14, 14)
    assert grid_shape((224, 320), 16) == (14, 20)


@pytest.mark.parametrize(
    ("shape", "patch", "message"),
    [
        ((384, 384), 14, "nearest: 378 or 392 rows and 378 or 392 columns"),
        (
            (224, 225),
            16,
            r"image_size=\(224, 225\) must .* nearest: 224 or 240 columns",
        ),
        ((8, 32), 16, "nearest: 16 rows"),
    ],
)
def test_rest_of_a_patch_is_refused_with_the_nearest_sizes(shape, patch, message):
    """Case 8: no pixel is dropped in silence."""
    with pytest.raises(ValueError, match=message):
        grid_shape(shape, patch)
    with pytest.raises(ValueError, match=message):
        PatchEmbed(patch, 8).init(jax.random.key(0), jnp.zeros((1, *shape, 3)))
    with pytest.raises(ValueError, match=message):
        patchify(jnp.zeros((1, *shape, 3)), patch)
