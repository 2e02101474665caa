"""Bytes that a training step takes on each device, by formula.

Exact for what lies still (weights, moments, the average). What the forward pass keeps
for the backward pass is counted array by array as the encoder writes it; what the
compiler then fuses away or adds is not known here, so `docs/scaling.md` has the formula
beside the TPU compiler's figures.
"""

import dataclasses
import math
from typing import Any

import jax
from ml_collections import ConfigDict

from vit_jax.models.flops import layer_windows, seen_pairs, token_grid
from vit_jax.models.spec import ResNetSpec, Spec, VitSpec
from vit_jax.train import mesh as meshes
from vit_jax.train.state import TrainState

# A TPU's tiles are of 128 lanes: rows of attention weights are filled up to them.
_LANES = 128


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes on one device.

    Attributes:
      params: the weights, float32.
      optimizer: its moments.
      average: the moving average of the weights.
      gradients: of the weights; with accumulation, of the sum too.
      activations: what the forward pass keeps, and what one block works with.
      images: the batch as it comes and as the model takes it.
      stacked: with scan, the weights and gradients of all layers side by side.
    """

    params: int
    optimizer: int
    average: int
    gradients: int
    activations: int
    images: int
    stacked: int

    @property
    def total(self) -> int:
        """At the worst moment: gradients appear as activations go."""
        still = self.params + self.optimizer + self.average + self.images
        still += self.stacked
        return still + max(self.gradients, self.activations)


def step_memory(
    config: ConfigDict,
    spec: Spec,
    state: TrainState,
    mesh: meshes.AnyMesh,
    image_shape: tuple[int, int, int],
) -> Memory:
    """The formula for a config's training step.

    Args:
      state: abstract, with shardings on `mesh`.
      image_shape: (rows, columns, channels).
    """
    train = config.train
    itemsize = jax.numpy.dtype(train.compute_dtype).itemsize
    per_device = config.data.train.batch_size // meshes.batch_devices(mesh)
    at_once = max(1, per_device // train.accumulation_steps)
    params = sharded_bytes(state.params)
    stacked = params * (4 + itemsize) // 4 if train.scan else 0
    kept = activation_bytes(
        spec,
        image_shape[:2],
        itemsize=itemsize,
        remat=train.remat,
        scan=train.scan,
        tensor=mesh.shape["tensor"],
    )
    return Memory(
        params=params,
        optimizer=sharded_bytes(state.opt_state),
        average=sharded_bytes(state.ema_params),
        gradients=params * (2 if train.accumulation_steps > 1 else 1),
        activations=at_once * kept,
        stacked=stacked,
        images=per_device * math.prod(image_shape) * (1 + itemsize),
    )


def sharded_bytes(tree: Any) -> int:
    """Bytes that one device holds of a tree of `jax.ShapeDtypeStruct`."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def activation_bytes(
    spec: Spec,
    image_size: tuple[int, int],
    *,
    itemsize: int,
    remat: str = "none",
    scan: bool = False,
    tensor: int = 1,
) -> int:
    """What the backward pass needs of one image, on one device.

    Args:
      image_size: (rows, columns) in pixels.
      itemsize: bytes of an activation.
      remat, scan: as of `vit_jax.create_model`.
      tensor: devices that share each layer.

    Raises:
      ValueError: the model is a ResNet, whose memory has no formula here.
    """
    if isinstance(spec, ResNetSpec):
        raise ValueError("there is no formula for the activations of a ResNet.")
    grid = token_grid(spec, image_size)
    blocks = [
        _block(spec, grid, window, itemsize, tensor) for window in layer_windows(spec)
    ]
    tokens = spec.num_prefix + math.prod(grid)
    border = tokens * spec.width * itemsize
    # What a scan keeps is not fused with what comes before and after.
    work = max(block.unfused for block in blocks)
    if remat != "none":
        kept = sum(block.dense for block in blocks) if remat == "dots" else 0
        return kept + (len(blocks) + 1) * border + work
    if scan:
        return border + sum(block.unfused for block in blocks) + work
    return border + sum(block.fused for block in blocks)


@dataclasses.dataclass(frozen=True)
class _Block:
    """Bytes of one image in one block.

    Attributes:
      fused: what the compiler keeps for the backward pass where layers are unrolled.
      unfused: all that differentiation asks to keep, as a loop must.
      dense: outputs of the dense layers alone.
    """

    fused: int
    unfused: int
    dense: int


def _block(
    spec: VitSpec, grid: tuple[int, int], window: int, itemsize: int, tensor: int
) -> _Block:
    tokens = spec.num_prefix + math.prod(grid)
    width, hidden = spec.width, spec.mlp_dim // tensor
    heads = max(1, spec.num_heads // tensor)
    inside = width // spec.num_heads * heads
    matrices = 1 if spec.mlp == "plain" else 2
    weights = heads * _padded_pairs(spec, grid, window)
    dropped = 2 * width + hidden if spec.dropout else 0
    noise = tokens * dropped + (weights if spec.attention_dropout else 0)
    # Of the width: the stream before each half and its norm; queries, keys, values and
    # what attention makes of them. Of the MLP: before and after the activation.
    fused = tokens * (4 * width + 4 * inside + (matrices + 1) * hidden) + weights
    # Besides, norms in float32, steps of the activation, and softmax in float32.
    narrow = 2 * width + 4 * inside + (matrices + 5) * hidden
    wide = 4 * (tokens * 6 * width + weights)
    return _Block(
        fused=fused * itemsize + noise,
        unfused=(tokens * narrow + weights) * itemsize + wide + noise,
        dense=tokens * (3 * inside + 2 * width + matrices * hidden) * itemsize,
    )


def _padded_pairs(spec: VitSpec, grid: tuple[int, int], window: int) -> int:
    """Numbers in one head's attention weights, rows filled up to whole lanes."""
    pairs = seen_pairs(spec, grid, window)
    row = spec.num_prefix + (window**2 if window else math.prod(grid))
    return pairs // row * (-(-row // _LANES) * _LANES)
