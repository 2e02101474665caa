"""The images that a model is most wrong about."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vit_jax.visualize.figures import as_rgb, panels, plain, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNT = 24
_COLUMNS = 6
_NAME = 16


def worst_mistakes(
    probabilities_NV: np.ndarray, labels_N: np.ndarray, count: int = COUNT
) -> np.ndarray:
    """Places [K] of wrong answers, the one with the largest probability first."""
    answers_N = probabilities_NV.argmax(axis=1)
    wrong = np.flatnonzero(answers_N != labels_N)
    sure = probabilities_NV[wrong, answers_N[wrong]]
    return wrong[np.argsort(-sure, kind="stable")][:count]


def draw_mistakes(
    images: Sequence[np.ndarray],
    probabilities_NV: np.ndarray,
    labels_N: np.ndarray,
    class_names: Sequence[str],
) -> "Figure":
    """A contact sheet: over each image its class and the answer, with probabilities.

    Args:
      images: uint8 [Y, X, C] each, of any size.
      probabilities_NV, labels_N: of these images.
      class_names: of all V.

    Raises:
      ValueError: matplotlib is not installed.
    """
    aspect = max(image.shape[0] / image.shape[1] for image in images)
    figure, axes = panels(len(images), _COLUMNS, 1.6, min(aspect, 1.5))
    for axis, image, row_V, label in zip(
        axes, images, probabilities_NV, labels_N, strict=True
    ):
        axis.imshow(as_rgb(image))
        answer = int(row_V.argmax())
        lines = [
            f"{plain(shortened(class_names[index], _NAME))} ({row_V[index]:.0%})"
            for index in (answer, int(label))
        ]
        axis.set_title(f"says {lines[0]}\nis {lines[1]}", fontsize=8)
    return figure
