"""What the model still knows when parts of an image are covered."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vit_jax.visualize.figures import as_rgb, new_figure, overlay, panels, plain, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Shares of the patches covered.
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


class Box(NamedTuple):
    """A rectangle of patches: rows `top` to `bottom` - 1, columns likewise."""

    top: int
    left: int
    bottom: int
    right: int


class Curve(NamedTuple):
    """What is left at each share: the answers' accuracy, the label's mean logit."""

    accuracy: np.ndarray
    logit: np.ndarray


def cover_orders(saliency_BN: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
    """Name -> [B, N] patches in the order in which they are covered.

    Args:
      saliency_BN: how much the model looks at each patch.
      seed: of the random order, drawn for each image.
    """
    drawn = np.random.default_rng(seed).random(saliency_BN.shape)
    return {
        "salient first": np.argsort(-saliency_BN, axis=1, kind="stable"),
        "random": np.argsort(drawn, axis=1, kind="stable"),
        "salient last": np.argsort(saliency_BN, axis=1, kind="stable"),
    }


def covered(
    images: np.ndarray,
    patches_BN: np.ndarray,
    grid: tuple[int, int],
    fill: Sequence[int],
) -> np.ndarray:
    """uint8 [B, Y, X, C] with patches painted in one colour.

    Args:
      images: uint8 [B, Y, X, C].
      patches_BN: True where a patch is to be covered, row by row.
      grid: (rows, columns) of patches.
      fill: the colour; that of the mean, which a model sees as zeros, says least.
    """
    batch, high, wide, _ = images.shape
    mask = patches_BN.reshape(batch, *grid)
    mask = mask.repeat(high // grid[0], axis=1).repeat(wide // grid[1], axis=2)
    return np.where(mask[..., None], np.asarray(fill, np.uint8), images)


def occlusion_curve(
    logits_of: Callable[[np.ndarray], np.ndarray],
    images: np.ndarray,
    labels_B: np.ndarray,
    order_BN: np.ndarray,
    grid: tuple[int, int],
    fill: Sequence[int],
    shares: Sequence[float] = SHARES,
) -> Curve:
    """Accuracy and the label's logit as ever more patches are covered, in an order.

    Args:
      logits_of: uint8 images [B, Y, X, C] -> logits [B, V].
      images, grid, fill: see `covered`.
      labels_B: what is right.
      order_BN: see `cover_orders`.
      shares: of the patches.
    """
    count = order_BN.shape[1]
    # The place that each patch has in the order.
    rank_BN = np.argsort(order_BN, axis=1, kind="stable")
    rows = np.arange(len(images))
    accuracy, logit = [], []
    for share in shares:
        hidden_BN = rank_BN < round(share * count)
        logits_BV = np.asarray(logits_of(covered(images, hidden_BN, grid, fill)))
        accuracy.append((logits_BV.argmax(axis=-1) == labels_B).mean())
        logit.append(logits_BV[rows, labels_B].mean())
    return Curve(np.array(accuracy), np.array(logit))


def draw_occlusion(
    curves: Mapping[str, Curve], shares: Sequence[float], answer: str
) -> "Figure":
    """Accuracy and logit over the share of covered patches, a line an order.

    Args:
      answer: what the accuracy is of, such as "accuracy".

    Raises:
      ValueError: matplotlib is not installed.
    """
    figure = new_figure(9, 3.6)
    accuracies, logits = figure.subplots(1, 2)
    percent = 100 * np.asarray(shares)
    for name, curve in curves.items():
        style = {"marker": "o", "markersize": 3, "label": name}
        accuracies.plot(percent, 100 * curve.accuracy, **style)
        logits.plot(percent, curve.logit, **style)
    accuracies.set(xlabel="patches covered (%)", ylabel=f"{answer} (%)", ylim=(-3, 103))
    logits.set(xlabel="patches covered (%)", ylabel="mean logit of the right class")
    logits.legend(frameon=False, title="covered")
    for axes in (accuracies, logits):
        tidy(axes)
    return figure


def salient_box(map_YX: np.ndarray, share: float = 1 / 3) -> Box:
    """The box, `share` of each side, that most attention lies in; the first of equals.

    A box is at least one patch.
    """
    high, wide = (max(1, round(share * side)) for side in map_YX.shape)
    windows = np.lib.stride_tricks.sliding_window_view(map_YX, (high, wide))
    sums = windows.sum(axis=(2, 3))
    # Rounding must not choose between boxes that are equal.
    best = int(np.argmax(np.round(sums, 12)))
    top, left = np.unravel_index(best, sums.shape)
    return Box(int(top), int(left), int(top) + high, int(left) + wide)


def box_of(shares: Sequence[float], grid: tuple[int, int]) -> Box:
    """The patches of a rectangle given as shares of the image.

    Args:
      shares: top, left, bottom and right, 0 to 1.
      grid: (rows, columns).

    Raises:
      ValueError: they are no rectangle inside the image, or hold no patch.
    """
    top, left, bottom, right = shares
    if not (0 <= top < bottom <= 1 and 0 <= left < right <= 1):
        raise ValueError(
            f"mask={tuple(shares)} must be top, left, bottom and right as shares of "
            "the image, 0 to 1, top above bottom and left before right."
        )
    rows, columns = grid
    box = Box(
        *(round(share * side) for share, side in zip(shares, grid * 2, strict=True))
    )
    if box.top == box.bottom or box.left == box.right:
        raise ValueError(
            f"mask={tuple(shares)} holds no patch of the {rows} x {columns}; widen it."
        )
    return box


def box_covered(
    image_YXC: np.ndarray, box: Box, grid: tuple[int, int], fill: Sequence[int]
) -> np.ndarray:
    """uint8 [Y, X, C] of any size with the patches of the box painted in one colour."""
    (high, wide), image = image_YXC.shape[:2], image_YXC.copy()
    top, bottom = (round(row / grid[0] * high) for row in (box.top, box.bottom))
    left, right = (round(column / grid[1] * wide) for column in (box.left, box.right))
    image[top:bottom, left:right] = np.asarray(fill, np.uint8)
    return image


def draw_region(
    before: tuple[np.ndarray, np.ndarray, str],
    after: tuple[np.ndarray, np.ndarray, str],
    box: Box,
    moved: float,
) -> "Figure":
    """The image whole and with the box covered, each with its attention.

    Args:
      before, after: (image uint8 [Y, X, C], map [rows, columns], the answer).
      box: what is covered.
      moved: see `attention.moved_share`.

    Raises:
      ValueError: matplotlib is not installed.
    """
    height, width = before[0].shape[:2]
    figure, axes = panels(4, 4, 2.9, height / width)
    top = max(before[1].max(), after[1].max())
    drawn = zip((0, 2), ("whole", "covered"), (before, after), strict=True)
    for start, state, (image, map_YX, answer) in drawn:
        inside = map_YX[box.top : box.bottom, box.left : box.right].sum()
        axes[start].imshow(as_rgb(image))
        axes[start].set_title(plain(f"{state}: {answer}"), fontsize=9)
        axes[start + 1].imshow(overlay(image, map_YX, top))
        axes[start + 1].set_title(f"{inside:.0%} of attention in the box", fontsize=9)
        for axis in axes[start : start + 2]:
            _outline(axis, box, as_rgb(image).shape, map_YX.shape)
    figure.suptitle(f"{moved:.0%} of attention moved", fontsize=10)
    return figure


def _outline(axis, box: Box, image_shape: Sequence[int], grid: tuple[int, int]) -> None:
    """The box's border."""
    high, wide = image_shape[0] / grid[0], image_shape[1] / grid[1]
    across = np.array([box.left, box.right, box.right, box.left, box.left]) * wide
    down = np.array([box.top, box.top, box.bottom, box.bottom, box.top]) * high
    axis.plot(across - 0.5, down - 0.5, color="cyan", linewidth=1.5, clip_on=False)
