"""What a model costs, by formula: parameters, and FLOPs of one image forward.

A multiplication and an addition are two FLOPs. Products and convolutions alone are
counted, as the field does (norms, activations and softmax are about one percent).
"""

import math
from typing import NamedTuple

from vit_jax.layers.patches import conv_stem_channels, grid_shape
from vit_jax.models.spec import ResNetSpec, Spec, VitSpec


class Cost(NamedTuple):
    """Parameters, and multiply-adds of one image."""

    parameters: int
    multiply_adds: int

    def __add__(self, other: tuple[int, ...]) -> "Cost":
        return Cost(self.parameters + other[0], self.multiply_adds + other[1])


_NOTHING = Cost(0, 0)


def count_parameters(
    spec: Spec, image_shape: tuple[int, int], channels: int = 3
) -> int:
    """How many numbers the model's parameters hold for images of that shape.

    Args:
      spec: from `vit_jax.models.variants.resolve`.
      image_shape: (rows, columns) in pixels.
      channels: of the images.

    Raises:
      ValueError: the image doesn't fit the patches.
    """
    return _cost(spec, image_shape, channels).parameters


def forward_flops(spec: Spec, image_shape: tuple[int, int], channels: int = 3) -> int:
    """FLOPs of one image's way through the model; a training step takes thrice that.

    Raises:
      ValueError: the image doesn't fit the patches.
    """
    return 2 * _cost(spec, image_shape, channels).multiply_adds


def attention_flops(spec: Spec, image_shape: tuple[int, int]) -> int:
    """Those of `forward_flops` that grow with the square of the tokens.

    They multiply queries with keys, and weights with values; 0 for a ResNet.
    """
    if isinstance(spec, ResNetSpec):
        return 0
    grid = token_grid(spec, image_shape)
    windows = layer_windows(spec)
    return 4 * spec.width * sum(seen_pairs(spec, grid, window) for window in windows)


def token_grid(spec: VitSpec, image_shape: tuple[int, int]) -> tuple[int, int]:
    """(rows, columns) of patch tokens.

    Raises:
      ValueError: the image doesn't fit the patches.
    """
    return _stem(spec, image_shape, 3)[1]


def layer_windows(spec: VitSpec) -> tuple[int, ...]:
    """Side of each layer's attention windows in patches, 0 where it sees all."""
    every = spec.global_every
    return tuple(
        0 if every and (layer + 1) % every == 0 else spec.window_size
        for layer in range(spec.depth)
    )


def _cost(spec: Spec, image_shape: tuple[int, int], channels: int) -> Cost:
    if isinstance(spec, ResNetSpec):
        return _resnet(spec, image_shape, channels)
    stem, grid = _stem(spec, image_shape, channels)
    tokens = spec.num_prefix + math.prod(grid)
    cost = stem + _embedding(spec, grid)
    for window in layer_windows(spec):
        cost += _block(spec, grid, window)
    norms = spec.stem_norm + spec.first_norm + (spec.final_norm == "tokens")
    cost += (norms * _norm(spec, spec.width), 0)
    if spec.pool == "map":
        read = tokens if spec.pool_prefix else math.prod(grid)
        cost += _attention_pool(spec, read)
    pooled = spec.width * (2 if spec.pool == "cls_gap" else 1)
    if spec.final_norm == "pooled":
        cost += (_norm(spec, pooled), 0)
    positions = tokens if spec.pool == "none" else 1
    cost += _head(spec, pooled, positions)
    return cost + _head(spec, pooled, 1) if spec.pool == "distilled" else cost


def _dense(inputs: int, outputs: int, times: int, bias: bool = True) -> Cost:
    return Cost((inputs + bias) * outputs, inputs * outputs * times)


def _norm(spec: VitSpec, width: int) -> int:
    return width if spec.norm == "rms" else 2 * width


def _stem(
    spec: VitSpec, image_shape: tuple[int, int], channels: int
) -> tuple[Cost, tuple[int, int]]:
    """The stem's cost, and the grid of tokens that it makes."""
    if spec.stem == "conv":
        return _conv_stem(spec, image_shape, channels)
    cost, features = _NOTHING, image_shape
    if spec.stem == "resnet":
        cost, features, channels = _stages(spec, image_shape, channels)
    grid = grid_shape(features, spec.patch_size)
    if spec.stem == "resnet" and not spec.stem_projection:
        return cost, grid
    inputs = spec.patch_size**2 * channels
    bias = spec.stem_bias or spec.stem == "resnet"
    return cost + _dense(inputs, spec.width, math.prod(grid), bias), grid


def _conv_stem(
    spec: VitSpec, image_shape: tuple[int, int], channels: int
) -> tuple[Cost, tuple[int, int]]:
    grid, cost = grid_shape(image_shape, spec.patch_size), _NOTHING
    rows, columns = image_shape
    for width in conv_stem_channels(spec.patch_size, spec.width):
        rows, columns = rows // 2, columns // 2
        cost += _dense(9 * channels, width, rows * columns, bias=False)
        cost += (2 * width, 0)
        channels = width
    return cost + _dense(channels, spec.width, math.prod(grid)), grid


def _embedding(spec: VitSpec, grid: tuple[int, int]) -> Cost:
    """Prefix tokens and what position tables are added to tokens."""
    slots = spec.num_prefix if spec.prefix_positions else 0
    rows = {
        "learned_1d": (slots + math.prod(grid)) * spec.width,
        "learned_2d": slots * spec.width + sum(grid) * (spec.width // 2),
    }
    return Cost(spec.num_prefix * spec.width + rows.get(spec.position, 0), 0)


def _block(spec: VitSpec, grid: tuple[int, int], window: int) -> Cost:
    width, tokens = spec.width, spec.num_prefix + math.prod(grid)
    cost = Cost(2 * _norm(spec, width), 0)
    cost += _dense(width, 3 * width, tokens, spec.qkv_bias)
    cost += _dense(width, width, tokens, spec.out_bias)
    cost += (0, 2 * width * seen_pairs(spec, grid, window))
    matrices = 2 if spec.mlp == "plain" else 3
    for _ in range(matrices - 1):
        cost += _dense(width, spec.mlp_dim, tokens, spec.mlp_bias)
    cost += _dense(spec.mlp_dim, width, tokens, spec.mlp_bias)
    if spec.qk_norm:
        cost += (2 * _norm(spec, width // spec.num_heads), 0)
    if spec.inner_norm:
        cost += (_norm(spec, width) + _norm(spec, spec.mlp_dim), 0)
    if spec.layer_scale:
        cost += (2 * width, 0)
    if spec.position == "relative":
        rows, columns = (window, window) if window else grid
        cost += ((2 * rows - 1) * (2 * columns - 1) * spec.num_heads, 0)
    return cost


def seen_pairs(spec: VitSpec, grid: tuple[int, int], window: int) -> int:
    """Pairs of query and key that a layer multiplies, padding included."""
    tokens = spec.num_prefix + math.prod(grid)
    if not window:
        return tokens * tokens
    count = math.prod(-(-side // window) for side in grid)
    patches = count * window**2 * (spec.num_prefix + window**2)
    return patches + spec.num_prefix * tokens


def _attention_pool(spec: VitSpec, tokens: int) -> Cost:
    width = spec.width
    cost = Cost(width + _norm(spec, width), 2 * width * tokens)
    cost += _dense(width, width, 1) + _dense(width, 2 * width, tokens)
    cost += _dense(width, width, 1)
    return cost + _dense(width, spec.mlp_dim, 1) + _dense(spec.mlp_dim, width, 1)


def _head(spec: Spec, width: int, times: int) -> Cost:
    cost = _NOTHING
    if isinstance(spec, VitSpec) and spec.representation_size:
        cost += _dense(width, spec.representation_size, times)
        width = spec.representation_size
    return cost + _dense(width, spec.num_classes, times) if spec.num_classes else cost


def _resnet(spec: ResNetSpec, image_shape: tuple[int, int], channels: int) -> Cost:
    cost, _, width = _stages(spec, image_shape, channels)
    return cost + (2 * width, 0) + _head(spec, width, 1)


def _stages(
    spec: Spec, image_shape: tuple[int, int], channels: int
) -> tuple[Cost, tuple[int, int], int]:
    """Root and stages: cost, shape of the feature map, its channels."""
    preact, mid = isinstance(spec, ResNetSpec), spec.stem_width
    size = _halved(image_shape)
    cost = _dense(49 * channels, mid, math.prod(size), bias=False)
    cost += (0 if preact else 2 * mid, 0)
    size, channels = _halved(size), mid
    for stage, units in enumerate(spec.stem_units):
        for index in range(units):
            strided = stage > 0 and index == 0
            unit, size = _unit(channels, mid * 2**stage, size, strided, preact)
            cost, channels = cost + unit, 4 * mid * 2**stage
    return cost, size, channels


def _unit(
    channels: int, mid: int, size: tuple[int, int], strided: bool, preact: bool
) -> tuple[Cost, tuple[int, int]]:
    before, out = math.prod(size), 4 * mid
    size = _halved(size) if strided else size
    after = math.prod(size)
    cost = _dense(channels, mid, before, bias=False)
    cost += _dense(9 * mid, mid, after, bias=False)
    cost += _dense(mid, out, after, bias=False)
    cost += (2 * (channels + 2 * mid) if preact else 2 * (2 * mid + out), 0)
    if strided or channels != out:
        cost += _dense(channels, out, after, bias=False)
        cost += (0 if preact else 2 * out, 0)
    return cost, size


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // 2), -(-size[1] // 2)
