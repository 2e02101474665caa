"""What a model costs, by formula: parameters, and FLOPs of one image forward.

A multiplication and an addition are two FLOPs. Matrix products alone are counted, as
the field does (norms, activations and softmax are about one percent).
"""

from vit_jax.layers.patches import grid_shape
from vit_jax.models.variants import Spec


def count_parameters(
    spec: Spec, image_shape: tuple[int, int], channels: int = 3
) -> int:
    """How many numbers the model's parameters hold for images of that shape.

    Args:
      spec: from `vit_jax.models.variants.resolve`.
      image_shape: (rows, columns) in pixels.
      channels: of the images.

    Raises:
      ValueError: the image is no multiple of the patch.
    """
    rows, columns = grid_shape(image_shape, spec.patch_size)
    num_prefix = int(spec.pool == "cls")
    width = spec.width
    stem = spec.patch_size**2 * channels * width + width
    table = (rows * columns + num_prefix) * width if spec.position != "none" else 0
    norm = 2 * width
    attention = 4 * (width * width + width)
    mlp = 2 * width * spec.mlp_dim + spec.mlp_dim + width
    blocks = spec.depth * (2 * norm + attention + mlp)
    return stem + num_prefix * width + table + blocks + norm + _head_parameters(spec)


def forward_flops(spec: Spec, image_shape: tuple[int, int], channels: int = 3) -> int:
    """FLOPs of one image's way through the model; a training step takes thrice that.

    Raises:
      ValueError: the image is no multiple of the patch.
    """
    rows, columns = grid_shape(image_shape, spec.patch_size)
    tokens = rows * columns + int(spec.pool == "cls")
    width = spec.width
    stem = rows * columns * spec.patch_size**2 * channels * width
    projections = tokens * 4 * width * width
    products = 2 * tokens * tokens * width
    mlp = tokens * 2 * width * spec.mlp_dim
    pre_logits = width * spec.representation_size
    head = (spec.representation_size or width) * spec.num_classes
    blocks = spec.depth * (projections + products + mlp)
    return 2 * (stem + blocks + pre_logits + head)


def _head_parameters(spec: Spec) -> int:
    size = spec.representation_size
    pre_logits = (spec.width + 1) * size
    return pre_logits + ((size or spec.width) + 1) * spec.num_classes
