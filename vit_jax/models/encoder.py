"""The Transformer encoder: a stack of equal blocks."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.layers import regularize


class EncoderBlock(nn.Module):
    """Tokens [B, N, D] -> [B, N, D]: norm, attention, residual; norm, MLP, residual.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equations 2 and 3.
    """

    attention_norm: nn.Module
    attention: nn.Module
    mlp_norm: nn.Module
    mlp: nn.Module
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        *,
        dropout_key: jax.Array | None,
        drop_rate: jax.Array | None,
    ) -> jax.Array:
        """One block; `drop_rate` is this layer's stochastic depth, None for never."""
        keys = (None,) * 4 if dropout_key is None else jax.random.split(dropout_key, 4)
        if drop_rate is None:
            keys = (*keys[:2], None, None)
        y = self.attention_norm(x).astype(self.dtype)
        y = self.attention(y, dropout_key=keys[0])
        x = x + regularize.stochastic_depth(y, drop_rate, keys[2])
        y = self.mlp_norm(x).astype(self.dtype)
        y = self.mlp(y, dropout_key=keys[1])
        return x + regularize.stochastic_depth(y, drop_rate, keys[3])


@dataclasses.dataclass(frozen=True)
class Template:
    """A module to be copied under new names; linen itself doesn't look inside."""

    module: nn.Module

    def copy(self, parent: nn.Module | None, name: str | None) -> nn.Module:
        """The module as a child of `parent`, or unbound where that is None."""
        return self.module.copy(parent=parent, name=name)


class Encoder(nn.Module):
    """Tokens [B, N, D] -> [B, N, D] through `depth` copies of `block` and a last norm.

    Args:
      block: `block_0`, `block_1`, … are its copies.
      depth: number of blocks.
      norm: the last norm.
      stochastic_depth: drop rate of the last block; it rises linearly from 0.

    Layer i takes its dropout key by folding i into the encoder's, and draws its first
    weights from a key that holds its name: neither depends on how the stack runs.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equations 2 to 4.
    """

    block: Template
    depth: int
    norm: nn.Module
    stochastic_depth: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, *, dropout_key: jax.Array | None) -> jax.Array:
        rates = self._drop_rates()
        for index in range(self.depth):
            block = self.block.copy(self, f"block_{index}")
            key = (
                None if dropout_key is None else jax.random.fold_in(dropout_key, index)
            )
            rate = None if rates is None else rates[index]
            x = block(x, dropout_key=key, drop_rate=rate)
        return self.norm(x)

    def _drop_rates(self) -> np.ndarray | None:
        if self.stochastic_depth == 0:
            return None
        return np.linspace(0, self.stochastic_depth, self.depth, dtype=np.float32)
