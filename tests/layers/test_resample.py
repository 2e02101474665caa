"""Tests vit_jax/layers/resample.py against SciPy and PyTorch."""

import numpy as np
import pytest
import scipy.ndimage
import torch

from vit_jax.layers.position import resize_grid
from vit_jax.layers.resample import METHODS, axis_weights

PAIRS = ((14, 24), (24, 14), (7, 61), (11, 15), (3, 2), (2, 1), (1, 4), (16, 5), (5, 5))


def noise(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("f")


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_a_place_sum_to_one(method):
    for old, new in PAIRS:
        weights = axis_weights(old, new, method)
        assert weights.shape == (new, old)
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("old,new", PAIRS)
def test_resizing_equals_torchs(method, old, new):
    """On grids that are no squares; torch does not align corners there."""
    table = noise(1, 2 + old * 6, 8)
    mode, _, antialias = method.partition("_")
    grid = torch.from_numpy(table[:, 2:].reshape(1, old, 6, 8)).permute(0, 3, 1, 2)
    expected = torch.nn.functional.interpolate(
        grid, size=(new, 9), mode=mode, antialias=bool(antialias), align_corners=False
    )
    out = resize_grid(table, (old, 6), (new, 9), num_prefix=2, method=method)
    np.testing.assert_array_equal(out[:, :2], table[:, :2])
    expected = expected.permute(0, 2, 3, 1).reshape(1, -1, 8).numpy()
    np.testing.assert_allclose(out[:, 2:], expected, atol=1e-5)


@pytest.mark.parametrize("old,new", PAIRS)
def test_corners_equal_the_originals_zoom(old, new):
    table = noise(1, old * 6, 4)
    factors = (new / old, 9 / 6, 1)
    expected = scipy.ndimage.zoom(table.reshape(old, 6, 4), factors, order=1)
    out = resize_grid(table, (old, 6), (new, 9))
    np.testing.assert_allclose(out[0], expected.reshape(-1, 4), atol=1e-5)


def test_methods_differ_by_as_much_as_is_known():
    """Unit noise, 14 to 24: the choice of the method is not neutral."""
    table = noise(1, 14 * 14, 64)
    corners, bilinear, bicubic = (
        resize_grid(table, (14, 14), (24, 24), method=method) for method in METHODS[:3]
    )
    assert abs(np.abs(corners - bilinear).mean() - 0.129) < 0.01
    assert abs(np.abs(corners - bicubic).mean() - 0.229) < 0.02


@pytest.mark.parametrize("method", METHODS)
def test_the_same_grid_gives_the_same_array(method):
    table = noise(1, 1 + 6, 4)
    same = resize_grid(table, (2, 3), (2, 3), num_prefix=1, method=method)
    assert same is table


def test_unknown_methods_and_empty_grids_are_refused():
    with pytest.raises(ValueError, match="method='nearest' must be one of corners"):
        resize_grid(noise(1, 4, 1), (2, 2), (3, 3), method="nearest")
    with pytest.raises(ValueError, match="grids of 0 and 3 places must have 1 or more"):
        axis_weights(0, 3, "corners")
