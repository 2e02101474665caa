"""What the first layer looks for: principal components of its filters."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vit_jax import trees
from vit_jax.visualize.figures import panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# As many as the paper shows.
COUNT = 28
# The first layer of a ResNet, of a hybrid, of a conv stem and of patches, in the order
# in which to look: some have a projection after it.
_FIRST_LAYERS = (
    "root/kernel",
    "stem/root/kernel",
    "stem/conv_0/kernel",
    "stem/projection/kernel",
)


def first_kernel(params: Mapping[str, Any]) -> np.ndarray:
    """The kernel [P, P, C, D] that sees the image.

    Raises:
      ValueError: the model has none of a known name.
    """
    flat = trees.flatten(params)
    for name in _FIRST_LAYERS:
        if name in flat:
            return np.asarray(flat[name], np.float32)
    raise ValueError(
        f"the weights must have a first layer, one of {', '.join(_FIRST_LAYERS)}."
    )


def filter_components(
    kernel_PPCD: np.ndarray, count: int = COUNT
) -> tuple[np.ndarray, np.ndarray]:
    """(components [K, P, P, C], share of variance [K]), the largest share first.

    K is `count`, or as many as D filters of P * P * C numbers have. Each component has
    length 1, and its entry of largest size is positive.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, figure 7 left.
    """
    *shape, width = kernel_PPCD.shape
    filters_DP = kernel_PPCD.reshape(-1, width).T.astype(np.float64)
    filters_DP = filters_DP - filters_DP.mean(axis=0)
    _, sizes, components_KP = np.linalg.svd(filters_DP, full_matrices=False)
    variance = sizes**2
    shares = variance / max(variance.sum(), np.finfo(float).tiny)
    rows = np.arange(len(components_KP))
    largest = np.abs(components_KP).argmax(axis=1)
    components_KP = components_KP * np.sign(components_KP[rows, largest])[:, None]
    return components_KP.reshape(-1, *shape)[:count], shares[:count]


def draw_filters(components_KPPC: np.ndarray, shares_K: np.ndarray) -> "Figure":
    """The components, as RGB where there are three channels and else in grey.

    Each has its own scale, with 0 in the middle.

    Raises:
      ValueError: matplotlib is not installed.
    """
    figure, axes = panels(len(components_KPPC), 7, cell=1.15)
    for axis, component, share in zip(axes, components_KPPC, shares_K, strict=True):
        scaled = 0.5 + 0.5 * component / max(np.abs(component).max(), 1e-12)
        shown = scaled if scaled.shape[-1] == 3 else scaled.mean(axis=-1)
        axis.imshow(shown, cmap="gray", vmin=0, vmax=1)
        axis.set_title(f"{share:.1%}", fontsize=8)
    return figure
