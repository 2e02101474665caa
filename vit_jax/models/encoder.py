"""The Transformer encoder: a stack of blocks, run as a loop or a scan."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.layers import regularize
from vit_jax.layers.position import Layout

# What the backward pass keeps of a block's forward pass, by name.
REMAT_POLICIES = {
    "none": None,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}


class BlockOutput(NamedTuple):
    """What a block gives: its tokens, and its attention weights where asked for."""

    tokens: jax.Array
    weights: jax.Array | None


class EncoderBlock(nn.Module):
    """Tokens [B, N, D] -> [B, N, D]: norm, attention, residual; norm, MLP, residual.

    `attention_scale` and `mlp_scale` weigh the branches (LayerScale); None for 1.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equations 2 and 3.
    """

    attention_norm: nn.Module
    attention: nn.Module
    mlp_norm: nn.Module
    mlp: nn.Module
    attention_scale: nn.Module | None = None
    mlp_scale: nn.Module | None = None
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        layout: Layout,
        *,
        dropout_key: jax.Array | None,
        drop_rate: jax.Array | None,
        with_weights: bool = False,
    ) -> BlockOutput:
        """One block; `drop_rate` is this layer's stochastic depth, None for never."""
        keys = (None,) * 4 if dropout_key is None else jax.random.split(dropout_key, 4)
        if drop_rate is None:
            keys = (*keys[:2], None, None)
        y = self.attention_norm(x).astype(self.dtype)
        y, weights = self.attention(
            y, layout, dropout_key=keys[0], with_weights=with_weights
        )
        if self.attention_scale is not None:
            y = self.attention_scale(y)
        x = x + regularize.stochastic_depth(y, drop_rate, keys[2])
        y = self.mlp_norm(x).astype(self.dtype)
        y = self.mlp(y, dropout_key=keys[1])
        if self.mlp_scale is not None:
            y = self.mlp_scale(y)
        return BlockOutput(
            x + regularize.stochastic_depth(y, drop_rate, keys[3]), weights
        )


@dataclasses.dataclass(frozen=True)
class Template:
    """A module to be copied; linen itself doesn't look inside."""

    module: nn.Module

    def copy(self) -> nn.Module:
        """A copy without parent or parameters."""
        return self.module.copy(parent=None)


class Encoder(nn.Module):
    """Tokens [B, N, D] -> [B, N, D] through `depth` blocks and a last norm.

    Args:
      blocks: templates that the layers go through in turn: one for equal layers;
        several for windowed layers with a global one after them.
      depth: number of layers, `block_0`, `block_1`, …
      norm, first_norm: after and before the blocks; None for none.
      stochastic_depth: drop rate of the last block; it rises linearly from 0.
      scan: compiles one turn of `blocks` and loops over it.
      remat: a name in `REMAT_POLICIES`: what the backward pass keeps.

    Parameters are those of separate blocks however the stack runs, and layer i takes
    its dropout key and its first weights by folding i into the encoder's, so that scan
    and remat change neither results nor checkpoints.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equations 2 to 4.
    """

    blocks: tuple[Template, ...]
    depth: int
    norm: nn.Module | None
    first_norm: nn.Module | None = None
    stochastic_depth: float = 0.0
    scan: bool = False
    remat: str = "none"

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        layout: Layout,
        *,
        dropout_key: jax.Array | None = None,
        with_layers: bool = False,
        with_weights: bool = False,
    ) -> tuple[jax.Array, list[BlockOutput]]:
        """The last tokens; and each layer's output where `with_layers`, else [].

        Raises:
          ValueError: the parameters lack a layer.
        """
        if self.is_initializing():
            self._initialize(x, layout)
        if self.first_norm is not None:
            x = self.first_norm(x).astype(x.dtype)
        steps = [
            self._step(template, layout, dropout_key, with_weights)
            for template in self.blocks
        ]
        run = self._scan if self.scan else self._loop
        x, outputs = run(steps, x, with_layers)
        return (x if self.norm is None else self.norm(x)), outputs

    def _initialize(self, x: jax.Array, layout: Layout) -> None:
        """Declares all layers; equal ones are drawn together, so that one compiles."""
        key, period = self.make_rng("params"), len(self.blocks)
        for start, template in enumerate(self.blocks):
            block = template.copy()
            layers = jnp.arange(start, self.depth, period)

            def draw(layer: jax.Array, block: nn.Module = block) -> Any:
                layer_key = jax.random.fold_in(key, layer)
                variables = block.init(
                    layer_key, x[:1], layout, dropout_key=None, drop_rate=None
                )
                return variables["params"]

            stacked = jax.jit(jax.vmap(draw))(layers)
            for index in range(len(layers)):
                name = f"block_{start + index * period}"
                self.put_variable("params", name, _slice(stacked, index))

    def _step(
        self,
        template: Template,
        layout: Layout,
        dropout_key: jax.Array | None,
        with_weights: bool,
    ) -> Callable[..., BlockOutput]:
        """(parameters, tokens, layer number, drop rate) -> the block's output."""
        block = template.copy()

        def step(
            params: Any, x: jax.Array, layer: jax.Array, drop_rate: jax.Array | None
        ) -> BlockOutput:
            key = (
                None if dropout_key is None else jax.random.fold_in(dropout_key, layer)
            )
            return block.apply(
                {"params": params},
                x,
                layout,
                dropout_key=key,
                drop_rate=drop_rate,
                with_weights=with_weights,
            )

        policy = REMAT_POLICIES[self.remat]
        if policy is None:
            return step
        # Inside a scan the compiler can't merge the second forward with the first.
        return jax.checkpoint(step, policy=policy, prevent_cse=not self.scan)

    def _loop(
        self, steps: list[Callable[..., BlockOutput]], x: jax.Array, with_layers: bool
    ) -> tuple[jax.Array, list[BlockOutput]]:
        rates, outputs = self._drop_rates(), []
        for layer in range(self.depth):
            rate = None if rates is None else rates[layer]
            step = steps[layer % len(steps)]
            output = step(self._layer_params(layer), x, layer, rate)
            x = output.tokens
            if with_layers:
                outputs.append(output)
        return x, outputs

    def _scan(
        self, steps: list[Callable[..., BlockOutput]], x: jax.Array, with_layers: bool
    ) -> tuple[jax.Array, list[BlockOutput]]:
        period = len(steps)
        turns = self.depth // period
        params = [
            jax.tree.map(
                lambda *leaves: jnp.stack(leaves),
                *(self._layer_params(layer) for layer in range(i, self.depth, period)),
            )
            for i in range(period)
        ]
        rates = self._drop_rates()
        layers = jnp.arange(self.depth).reshape(turns, period)

        def turn(x: jax.Array, inputs: Any) -> tuple[jax.Array, list[BlockOutput]]:
            params, layers, rates = inputs
            outputs = []
            for i, step in enumerate(steps):
                rate = None if rates is None else rates[i]
                output = step(params[i], x, layers[i], rate)
                x = output.tokens
                outputs.append(output)
            return x, outputs if with_layers else []

        rates = None if rates is None else rates.reshape(turns, period)
        x, stacked = jax.lax.scan(turn, x, (params, layers, rates))
        if not with_layers:
            return x, []
        return x, [
            _slice(stacked[layer % period], layer // period)
            for layer in range(self.depth)
        ]

    def _layer_params(self, layer: int) -> Any:
        params = self.get_variable("params", f"block_{layer}")
        if params is None:
            raise ValueError(
                f"the parameters must have {self.depth} encoder blocks, as the model "
                f"does; encoder/block_{layer} is missing."
            )
        return params

    def _drop_rates(self) -> np.ndarray | None:
        if self.stochastic_depth == 0:
            return None
        return np.linspace(0, self.stochastic_depth, self.depth, dtype=np.float32)


def _slice(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)
