"""Tests vit_jax/data/transforms.py."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from tests.data.pictures import smooth_pixels
from vit_jax.data.decode import open_picture
from vit_jax.data.randomness import uniform
from vit_jax.data.transforms import (
    EvalTransform,
    TrainTransform,
    middle_box,
    random_box,
    shifted,
)

PLAIN = TrainTransform(
    image_size=(24, 32),
    crop="random_resized",
    crop_area=(0.08, 1.0),
    crop_aspect=(0.75, 4 / 3),
    shift=0,
    flip=0.0,
    steps=(),
)


def draws_of(transform: TrainTransform, count: int, seed: int = 0) -> list[list[float]]:
    return uniform(seed, np.arange(count), transform.num_draws).tolist()


def test_random_boxes_have_the_areas_and_aspects_asked_for():
    draws = uniform(0, np.arange(3000), 22).tolist()
    boxes = np.array(
        [random_box((300, 400), (0.1, 0.6), (0.75, 4 / 3), d[:2], d[2:]) for d in draws]
    )
    top, left, height, width = boxes.T
    assert top.min() >= 0 and (top + height).max() <= 300
    assert left.min() >= 0 and (left + width).max() <= 400
    area, aspect = height * width / (300 * 400), width / height
    assert 0.098 < area.min() < 0.12 and 0.58 < area.max() < 0.602
    assert abs(area.mean() - 0.35) < 0.01
    assert 0.74 < aspect.min() < 0.76 and 1.32 < aspect.max() < 1.345
    assert abs(np.log(aspect).mean()) < 0.01
    share_down = top[height < 300] / (300 - height[height < 300])
    assert abs(share_down.mean() - 0.5) < 0.02


def test_a_box_that_never_fits_becomes_the_largest_legal_middle():
    attempts = [0.999, 0.5] * 10
    narrow = random_box((1000, 10), (0.9, 1.0), (0.75, 4 / 3), (0, 0), attempts)
    assert narrow == (493, 0, 13, 10)
    wide = random_box((10, 1000), (0.9, 1.0), (0.75, 4 / 3), (0, 0), attempts)
    assert wide == (0, 493, 10, 13)


def test_random_boxes_are_torchvisions():
    torch = pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    torch.manual_seed(0)
    image = Image.new("RGB", (500, 375))
    theirs = np.array(
        [
            transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (0.75, 4 / 3))
            for _ in range(1000)
        ]
    )
    draws = uniform(0, np.arange(3000), 22).tolist()
    ours = np.array(
        [random_box((375, 500), (0.08, 1), (0.75, 4 / 3), d[:2], d[2:]) for d in draws]
    )
    for column in range(4):
        quantiles = [np.quantile(b[:, column], [0.1, 0.5, 0.9]) for b in (ours, theirs)]
        np.testing.assert_allclose(*quantiles, atol=15)


def test_equal_draws_give_equal_images_and_others_do_not():
    picture = open_picture(smooth_pixels(60, 80), 3)
    first, second = draws_of(PLAIN, 2)
    image = PLAIN(picture, first)
    assert image.shape == (24, 32, 3) and image.dtype == np.uint8
    np.testing.assert_array_equal(image, PLAIN(picture, first))
    assert np.any(image != PLAIN(picture, second))


def test_flip_mirrors_with_its_probability():
    picture = open_picture(smooth_pixels(24, 32), 3)
    flipping = dataclasses.replace(PLAIN, crop="resize", flip=0.25)
    flipped = 0
    for draws in draws_of(flipping, 1000):
        image = flipping(picture, draws)
        mirrored = np.array_equal(image, picture.pixels()[:, ::-1])
        assert mirrored or np.array_equal(image, picture.pixels())
        flipped += mirrored
    assert 200 < flipped < 300


def test_shift_moves_by_every_step_up_to_its_reach():
    pixels = np.zeros((9, 9, 1), np.uint8)
    pixels[4, 4] = 255
    moving = dataclasses.replace(PLAIN, image_size=(9, 9), crop="shift", shift=2)
    moves = set()
    for draws in draws_of(moving, 400):
        row, column, _ = np.argwhere(moving(open_picture(pixels, 1), draws))[0]
        moves.add((row - 4, column - 4))
    assert moves == {(y, x) for y in range(-2, 3) for x in range(-2, 3)}


def test_shifted_leaves_black_where_the_image_moved_away():
    image = np.arange(9, dtype=np.uint8).reshape(3, 3, 1)
    np.testing.assert_array_equal(
        shifted(image, 1, -1)[..., 0], [[0, 0, 0], [1, 2, 0], [4, 5, 0]]
    )
    np.testing.assert_array_equal(shifted(image, 0, 0), image)
    assert not shifted(image, 0, 5).any()


def test_steps_get_draws_of_their_own():
    class Spy:
        num_draws = 2
        seen = []

        def __call__(self, image, draws):
            self.seen.append(draws)
            return image

    spied = dataclasses.replace(PLAIN, steps=(Spy(), Spy()))
    (draws,) = draws_of(spied, 1)
    image = spied(open_picture(smooth_pixels(40, 40), 3), draws)
    assert Spy.seen == [draws[-4:-2], draws[-2:]]
    plain = PLAIN(open_picture(smooth_pixels(40, 40), 3), draws[: PLAIN.num_draws])
    np.testing.assert_array_equal(image, plain)


def test_the_middle_has_the_models_aspect():
    assert middle_box((300, 400), (224, 224), 1.0) == (0, 50, 300, 300)
    assert middle_box((400, 400), (100, 200), 0.5) == (150, 100, 100, 200)


def test_evaluation_cuts_what_resizing_and_cutting_would():
    transforms = pytest.importorskip("torchvision.transforms")
    photo = smooth_pixels(512, 640)
    ours = EvalTransform((224, 224), "center", 224 / 256, "bilinear")
    theirs = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)])
    expected = np.asarray(theirs(Image.fromarray(photo))).astype(int)
    difference = np.abs(ours(open_picture(photo, 3)) - expected)
    assert difference.mean() < 0.5 and difference.max() <= 6


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_evaluation_can_squeeze_the_whole_image(interpolation):
    photo = smooth_pixels(30, 50)
    transform = EvalTransform((20, 20), "stretch", 0.875, interpolation)
    resampling = Image.Resampling[interpolation.upper()]
    expected = Image.fromarray(photo).resize((20, 20), resampling)
    np.testing.assert_array_equal(transform(open_picture(photo, 3)), expected)
    grey = transform(open_picture(photo, 1))
    assert grey.shape == (20, 20, 1)
