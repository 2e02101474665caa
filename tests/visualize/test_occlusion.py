"""Covered patches of images whose answer one patch holds."""

import numpy as np
import pytest

from vit_jax.visualize import occlusion
from vit_jax.visualize.occlusion import Box

GRID = (2, 4)


def planted(count=8):
    """(images, labels, saliency): one bright patch tells the class, 0 or 1.

    Bright in the upper row: class 0; in the lower: class 1. Saliency is highest there.
    """
    images = np.full((count, 8, 16, 1), 50, np.uint8)
    saliency = np.full((count, 8), 0.05)
    labels = np.arange(count) % 2
    for index, label in enumerate(labels):
        column = index % 4
        images[index, 4 * label : 4 * label + 4, 4 * column : 4 * column + 4] = 250
        saliency[index, 4 * label + column] = 0.65
    return images, labels, saliency


def logits_of(images):
    """Class 0 by the brightness of the upper half, class 1 of the lower."""
    halves = images.reshape(len(images), 2, -1).astype(np.float32)
    return np.maximum(halves - 50, 0).mean(axis=-1) * [1.0, 1.001]


def test_the_planted_patch_decides_when_it_goes_first_and_not_when_it_goes_last():
    images, labels, saliency = planted()
    orders = occlusion.cover_orders(saliency)
    found = {
        name: occlusion.occlusion_curve(
            logits_of, images, labels, order, GRID, (50,), shares=(0, 1 / 8, 7 / 8, 1)
        )
        for name, order in orders.items()
    }
    # Without the patch both logits are 0, and class 0 is named.
    assert found["salient first"].accuracy.tolist() == [1, 0.5, 0.5, 0.5]
    assert found["salient last"].accuracy.tolist() == [1, 1, 1, 0.5]
    assert found["salient first"].logit[1] == 0
    assert found["salient last"].logit[2] == found["salient last"].logit[0] > 0
    assert 0.5 <= found["random"].accuracy[2] <= 1


def test_orders_name_each_patch_once_and_the_random_one_differs_by_image():
    orders = occlusion.cover_orders(planted()[2], seed=3)
    for order in orders.values():
        np.testing.assert_array_equal(np.sort(order, axis=1), [range(8)] * 8)
    assert len({tuple(row) for row in orders["random"]}) > 1
    again = occlusion.cover_orders(planted()[2], seed=3)["random"]
    np.testing.assert_array_equal(again, orders["random"])


def test_covered_patches_get_the_colour_and_the_others_stay():
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 8, 3), np.uint8)
    mask = np.zeros((2, 8), bool)
    mask[1, 6] = True  # row 1, column 2
    found = occlusion.covered(images, mask, GRID, (1, 2, 3))
    np.testing.assert_array_equal(found[0], images[0])
    assert (found[1, 2:, 4:6] == [1, 2, 3]).all()
    changed = (found[1] != images[1]).any(axis=-1)
    assert not changed[:2].any() and not changed[:, :4].any()


def test_a_box_is_covered_at_any_resolution():
    for high, wide in ((4, 8), (33, 50)):
        image = np.zeros((high, wide, 1), np.uint8)
        found = occlusion.box_covered(image, Box(1, 2, 2, 4), GRID, (9,))
        share = (found == 9).mean()
        assert share == pytest.approx(1 / 4, abs=0.02)
        assert (found[-1, -1] == 9) and found[0, 0] == 0
        assert not image.any()


def test_the_salient_box_holds_the_most_attention():
    map_YX = np.zeros((6, 9))
    map_YX[4, 7] = map_YX[5, 8] = 0.5
    assert occlusion.salient_box(map_YX) == Box(4, 6, 6, 9)
    assert occlusion.salient_box(np.ones((2, 2)) / 4) == Box(0, 0, 1, 1)


def test_shares_of_the_image_become_patches():
    assert occlusion.box_of((0, 0.25, 0.5, 1), GRID) == Box(0, 1, 1, 4)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((0.5, 0, 0.5, 1), "must be top, left, bottom and right"),
        ((0, 0, 1, 1.2), "must be top, left, bottom and right"),
        ((0, 0, 0.1, 1), "holds no patch of the 2 x 4"),
    ],
)
def test_what_is_no_box_is_refused(shares, message):
    with pytest.raises(ValueError, match=message):
        occlusion.box_of(shares, GRID)


def test_the_region_picture_says_what_moved():
    image = np.zeros((64, 128, 3), np.uint8)
    before, after = np.full((2, 4), 1 / 8), np.zeros((2, 4))
    after[0, 0] = 1
    box = Box(1, 1, 2, 3)
    figure = occlusion.draw_region(
        (image, before, "dog 90%"), (image, after, "cat 40%"), box, 7 / 8
    )
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [
        "whole: dog 90%",
        "25% of attention in the box",
        "covered: cat 40%",
        "0% of attention in the box",
    ]
    assert figure.get_suptitle() == "88% of attention moved"
    (line,) = figure.axes[0].lines
    assert line.get_xdata().max() == 95.5 and line.get_ydata().min() == 31.5


def test_the_curves_have_a_line_an_order():
    curve = occlusion.Curve(np.array([1, 0.5]), np.array([3.0, 1.0]))
    figure = occlusion.draw_occlusion({"random": curve}, (0, 0.5), "accuracy")
    accuracies, logits = figure.axes
    assert accuracies.lines[0].get_ydata().tolist() == [100, 50]
    assert logits.lines[0].get_xdata().tolist() == [0, 50]
    assert accuracies.get_ylabel() == "accuracy (%)"
