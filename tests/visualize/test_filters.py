"""Principal components of planted filters."""

import jax
import numpy as np
import pytest

from vit_jax.models.factory import create_model
from vit_jax.visualize.filters import draw_filters, filter_components, first_kernel


def planted(channels=3, width=400):
    """(kernel [4, 4, C, D], its three basis filters [3, 4 * 4 * C])."""
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(16 * channels, 3)))
    amounts = rng.normal(size=(width, 3))
    amounts, _ = np.linalg.qr(amounts - amounts.mean(axis=0))
    filters = (amounts * [3.0, 2.0, 1.0]) @ basis.T + 7.0
    return filters.T.reshape(4, 4, channels, width), basis.T


def test_a_planted_basis_is_found_in_the_order_of_its_variance():
    kernel, basis = planted()
    components, shares = filter_components(kernel, 5)
    assert components.shape == (5, 4, 4, 3)
    np.testing.assert_allclose(shares[:3], np.array([9, 4, 1]) / 14, rtol=1e-6)
    np.testing.assert_allclose(shares[3:], 0, atol=1e-12)
    flat = components[:3].reshape(3, -1)
    # Up to sign, which makes the entry of largest size positive.
    np.testing.assert_allclose(np.abs(flat @ basis.T), np.eye(3), atol=1e-6)
    assert all(row[np.abs(row).argmax()] > 0 for row in flat)


def test_there_are_no_more_components_than_pixels():
    components, _ = filter_components(planted()[0][:2, :2, :1])
    assert components.shape == (4, 2, 2, 1)


def test_equal_filters_have_no_variance():
    _, shares = filter_components(np.ones((2, 2, 1, 8)))
    np.testing.assert_array_equal(shares, 0)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_picture_has_a_panel_a_component(channels):
    components, shares = filter_components(planted(channels)[0], 10)
    figure = draw_filters(components, shares)
    shown = [axis.images[0].get_array() for axis in figure.axes if axis.images]
    assert len(shown) == 10
    assert shown[0].shape == ((4, 4, 3) if channels == 3 else (4, 4))


@pytest.mark.parametrize(
    ("name", "fields", "shape"),
    [
        ("Ti/16", {}, (16, 16, 3, 192)),
        ("Ti/16", {"stem": "conv"}, (3, 3, 3, 24)),
        ("R50+B/16", {}, (7, 7, 3, 64)),
        ("R50x1", {}, (7, 7, 3, 64)),
    ],
)
def test_the_kernel_is_of_the_layer_that_sees_the_image(name, fields, shape):
    model = create_model(name, **fields)
    image = jax.ShapeDtypeStruct((1, 64, 64, 3), np.float32)
    params = jax.eval_shape(model.init, jax.random.key(0), image)["params"]
    zeros = jax.tree.map(
        lambda leaf: np.broadcast_to(np.float32(0), leaf.shape), params
    )
    assert first_kernel(zeros).shape == shape


def test_weights_without_a_first_layer_are_refused():
    with pytest.raises(ValueError, match="must have a first layer"):
        first_kernel({"head": {"kernel": np.zeros((3, 3))}})
