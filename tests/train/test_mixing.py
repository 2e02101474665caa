"""Tests vit_jax/train/mixing.py."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.sharding import NamedSharding, PartitionSpec

from vit_jax.train.mixing import beta_share, erase, mix, prepare, uncut

HALVES = {"mean": [0.5] * 3, "std": [0.5] * 3}


def batch_of(size: int, rows: int = 8, columns: int = 8) -> dict[str, np.ndarray]:
    """Images of one value each, labels 0, 1, …"""
    values = np.arange(size, dtype=np.uint8)[:, None, None, None] * 10
    return {
        "image": np.broadcast_to(values, (size, rows, columns, 3)).copy(),
        "label": np.arange(size, dtype=np.int32),
        "weight": np.ones(size, np.float32),
    }


@functools.cache
def compiled(**options):
    """The jitted `prepare` with these keywords; compiling takes most of the time."""
    options = {
        "num_classes": 10,
        "dtype": jnp.float32,
        "label_smoothing": 0.0,
        "mixup": 0.0,
        "cutmix": 0.0,
        "cutmix_probability": 0.5,
        "erasing": 0.0,
    } | options
    return jax.jit(functools.partial(prepare, preprocessing=HALVES, **options))


def prepared(batch, seed=0, **options):
    return compiled(**options)(batch, jax.random.key(seed))


def test_without_mixing_images_are_normalised_and_labels_one_hot():
    images, targets = prepared(batch_of(4))
    np.testing.assert_allclose(
        images[:, 0, 0, 0], [-1, -0.92157, -0.84314, -0.76471], 1e-4
    )
    np.testing.assert_array_equal(targets, np.eye(10)[:4])


def test_label_smoothing_is_applied_once_and_mixing_keeps_the_sum():
    _, targets = prepared(batch_of(4), label_smoothing=0.1)
    np.testing.assert_allclose(targets[0], [0.91] + [0.01] * 9, rtol=1e-6)
    _, mixed = prepared(batch_of(4), label_smoothing=0.1, mixup=0.8)
    np.testing.assert_allclose(mixed.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(mixed.min(), 0.01, rtol=1e-5)


def shares_of(targets):
    """What share of its own label each example kept."""
    return np.diagonal(np.asarray(targets))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("option", ["mixup", "cutmix"])
def test_images_and_labels_are_mixed_by_the_same_shares(option, size):
    plain, _ = prepared(batch_of(size))
    for seed in range(5):
        images, targets = prepared(batch_of(size), seed, **{option: 1.0})
        own = shares_of(targets)
        np.testing.assert_allclose(targets.sum(axis=1), 1, rtol=1e-6)
        values = np.asarray(plain)[:, 0, 0, 0]
        expected = own * values + (1 - own) * np.roll(values, -1)
        means = np.asarray(images).mean(axis=(1, 2, 3))
        np.testing.assert_allclose(means, expected, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0])
def test_shares_follow_the_beta_distribution(alpha):
    keys = jax.random.split(jax.random.key(0), 4000)
    shares = np.asarray(jax.jit(jax.vmap(lambda key: beta_share(key, alpha)))(keys))
    distribution = scipy.stats.beta(alpha, alpha)
    # The 0.1 % point of the Kolmogorov-Smirnov distance is 1.95 / sqrt(4000).
    assert scipy.stats.kstest(shares, distribution.cdf).statistic < 0.031


def test_mixup_draws_anew_each_step():
    drawn = {
        float(shares_of(prepared(batch_of(2), seed, mixup=0.4)[1])[0])
        for seed in range(5)
    }
    assert len(drawn) == 5


@pytest.mark.parametrize("options", [{"mixup": 1.0}, {"cutmix": 1.0}])
def test_a_batch_of_one_stays_as_it_is(options):
    plain, targets = prepared(batch_of(1))
    images, mixed = prepared(batch_of(1), **options)
    np.testing.assert_allclose(images, plain, atol=1e-6)
    np.testing.assert_allclose(mixed, targets, atol=1e-6)


def test_cutmix_pastes_a_box_of_the_next_image():
    plain, _ = prepared(batch_of(3))
    first, second = (float(plain[index, 0, 0, 0]) for index in (0, 1))
    for seed in range(8):
        images, targets = prepared(batch_of(3), seed, cutmix=1.0)
        image = np.asarray(images)[0, ..., 0]
        pasted = np.isclose(image, second, atol=1e-6)
        assert np.all(pasted | np.isclose(image, first, atol=1e-6))
        assert shares_of(targets)[0] == pytest.approx(1 - pasted.mean(), abs=1e-6)
        rows, columns = np.flatnonzero(pasted.any(1)), np.flatnonzero(pasted.any(0))
        box = (
            pasted[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            if len(rows)
            else pasted[:0]
        )
        assert box.all()


def test_a_centred_box_has_the_area_that_the_share_leaves():
    for share in (0.19, 0.51, 0.84):
        areas = [
            1 - float(uncut(jax.random.key(seed), share, (200, 200)).mean())
            for seed in range(30)
        ]
        assert max(areas) == pytest.approx(1 - share, abs=0.02)


def test_with_both_on_each_step_takes_one():
    kinds = set()
    for seed in range(12):
        images, _ = prepared(batch_of(2), seed, mixup=1.0, cutmix=1.0)
        kinds.add(len(np.unique(np.round(np.asarray(images)[0], 5))) > 1)
    assert kinds == {True, False}


def test_an_example_without_weight_is_mixed_into_no_other():
    batch = batch_of(4)
    batch["weight"][2] = 0
    plain, _ = prepared(batch_of(4))
    images, targets = prepared(batch, mixup=1.0)
    np.testing.assert_allclose(images[1], plain[1], atol=1e-6)
    np.testing.assert_allclose(targets[1], np.eye(10)[1], atol=1e-6)
    assert shares_of(targets)[0] < 1


def test_mixing_does_not_depend_on_the_number_of_devices():
    options = {"mixup": 0.8, "cutmix": 1.0, "erasing": 0.5, "label_smoothing": 0.1}
    batch = batch_of(16)
    alone = prepared(batch, **options)
    mesh = jax.make_mesh((8,), ("data",), (jax.sharding.AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    shared = prepared(jax.device_put(batch, sharding), **options)
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_bfloat16_images_keep_their_type():
    images, targets = prepared(batch_of(4), dtype=jnp.bfloat16, mixup=1.0, erasing=1.0)
    assert images.dtype == jnp.bfloat16 and targets.dtype == jnp.float32


def test_mix_by_hand():
    images = jnp.array([[[[0.0]]], [[[1.0]]]])
    targets = jnp.eye(2)
    mixed, mixed_targets = mix(images, targets, jnp.full((1, 1, 1), 0.75))
    np.testing.assert_allclose(mixed.ravel(), [0.25, 0.75])
    np.testing.assert_allclose(mixed_targets, [[0.75, 0.25], [0.25, 0.75]])


def test_erasing_fills_rectangles_with_noise():
    images = jnp.full((200, 24, 32, 3), 7.0)
    erased = np.asarray(erase(images, jax.random.key(0), 0.25))
    changed = (erased != 7).all(axis=-1)
    touched = changed.any(axis=(1, 2))
    assert 0.17 < touched.mean() < 0.33
    shares = changed[touched].mean(axis=(1, 2))
    assert shares.min() > 0.005 and shares.max() < 0.36
    for picture in changed[touched]:
        rows, columns = np.flatnonzero(picture.any(1)), np.flatnonzero(picture.any(0))
        assert picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
    noise = erased[changed]
    assert abs(noise.mean()) < 0.05 and abs(noise.std() - 1) < 0.05
