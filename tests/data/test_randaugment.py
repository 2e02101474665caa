"""Tests vit_jax/data/randaugment.py against torchvision's."""

import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import smooth_pixels
from vit_jax.data.randaugment import OPERATIONS, RandAugment
from vit_jax.data.randomness import uniform

PHOTO = Image.fromarray(smooth_pixels(57, 83))


@pytest.fixture(scope="module")
def torchvision_autoaugment():
    """Their module; its operations are not exported under a public name."""
    return pytest.importorskip("torchvision.transforms.autoaugment")


@pytest.mark.parametrize("magnitude", [0, 5, 10, 29])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_torchvisions(name, sign, magnitude, torchvision_autoaugment):
    operation, full, signed = OPERATIONS[name]
    if sign < 0 and not signed:
        sign = 1
    table = torchvision_autoaugment.RandAugment()._augmentation_space(
        31, (PHOTO.height, PHOTO.width)
    )
    values, their_signed = table[name]
    assert their_signed == signed
    amount = float(values[magnitude]) if values.ndim else 0.0
    theirs = torchvision_autoaugment._apply_op(
        PHOTO,
        name,
        sign * amount,
        interpolation=torchvision_autoaugment.InterpolationMode.NEAREST,
        fill=None,
    )
    ours = operation(PHOTO, sign * full * magnitude / 30)
    difference = np.abs(np.asarray(ours, int) - np.asarray(theirs, int))
    assert difference.max() <= 1


def test_the_table_has_torchvisions_operations(torchvision_autoaugment):
    theirs = torchvision_autoaugment.RandAugment()._augmentation_space(31, (57, 83))
    assert list(OPERATIONS) == list(theirs)


def test_operations_are_drawn_alike_often(monkeypatch):
    seen = []
    for name, (_, full, signed) in OPERATIONS.items():

        def record(image, amount, name=name):
            seen.append((name, amount))
            return image

        monkeypatch.setitem(OPERATIONS, name, (record, full, signed))
    augment = RandAugment(layers=2, magnitude=15, magnitude_std=0, probability=1)
    for draws in uniform(0, np.arange(1400), augment.num_draws).tolist():
        augment(PHOTO, draws)
    names = [name for name, _ in seen]
    counts = np.array([names.count(name) for name in OPERATIONS])
    # 13 degrees of freedom: 34.5 is the 0.1 % point.
    assert ((counts - 200) ** 2 / 200).sum() < 34.5
    turns = {round(amount, 6) for name, amount in seen if name == "Rotate"}
    assert turns == {15.0, -15.0}


def test_probability_and_spread_of_the_strength(monkeypatch):
    amounts = []

    def record(image, amount):
        amounts.append(amount)
        return image

    for name in OPERATIONS:
        monkeypatch.setitem(OPERATIONS, name, (record, 30.0, False))
    augment = RandAugment(layers=1, magnitude=10, magnitude_std=2, probability=0.5)
    for draws in uniform(0, np.arange(4000), augment.num_draws).tolist():
        augment(PHOTO, draws)
    assert 1850 < len(amounts) < 2150
    assert abs(np.mean(amounts) - 10) < 0.2 and abs(np.std(amounts) - 2) < 0.15
    extreme = RandAugment(layers=1, magnitude=1, magnitude_std=99, probability=1)
    extreme(PHOTO, [0.0, 0.0, 0.0, 0.0])
    assert amounts[-1] == 0


@pytest.mark.parametrize("magnitude", [0, 30, 45, 60])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_every_operation_keeps_size_and_mode_at_any_strength(mode, magnitude):
    image = PHOTO.convert(mode)
    augment = RandAugment(layers=1, magnitude=magnitude, magnitude_std=0, probability=1)
    for choice in (np.arange(len(OPERATIONS)) + 0.5) / len(OPERATIONS):
        changed = augment(image, [choice, 0.9, 0.0, 0.5])
        assert changed.size == image.size and changed.mode == mode
        assert np.asarray(changed).max() > 0
