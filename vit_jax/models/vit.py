"""The Vision Transformer, put together from its parts."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers import regularize
from vit_jax.layers.position import Layout
from vit_jax.models.preprocessing import Preprocessing


class VisionTransformer(nn.Module):
    """Images [B, Y, X, C] -> logits [B, V] in float32.

    `vit_jax.create_model` builds the parts from a name and flat keywords.

    Args:
      stem: images -> tokens [B, rows, columns, D].
      prefix: the tokens [1, prefix, D] that precede the patches; None for none.
      position: grid -> table [1, slots + N, D] to be added; None for none.
      encoder: tokens -> tokens.
      pool: tokens -> one vector, or all tokens.
      head_norm: after pooling; None for none.
      pre_logits: a layer before the head; None for none.
      head: vector -> logits; None returns the vector.
      dropout: share of the embedded tokens' elements dropped in training.
      patch_dropout: share of the patches left out in training.
      preprocessing: what images it was made for.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, figure 1 and equations 1 to 4.
    """

    stem: nn.Module
    prefix: nn.Module | None
    position: nn.Module | None
    encoder: nn.Module
    pool: nn.Module
    head_norm: nn.Module | None
    pre_logits: nn.Module | None
    head: nn.Module | None
    dropout: float = 0.0
    patch_dropout: float = 0.0
    preprocessing: Preprocessing = Preprocessing()

    def grid_shape(self, image_shape: tuple[int, int]) -> tuple[int, int]:
        """(rows, columns) of patch tokens for an image of (rows, columns) pixels.

        Raises:
          ValueError: the image doesn't fit; names the nearest sizes that do.
        """
        return self.stem.grid_shape(image_shape)

    @nn.compact
    def __call__(
        self,
        images: jax.Array,
        *,
        train: bool = False,
        features: bool = False,
        attention_weights: bool = False,
    ) -> Any:
        """Logits, or pooled features where there is no head.

        Args:
          images: floats, already normalised.
          train: draws dropout and stochastic depth from `rngs={"dropout": key}`.
          features: returns (logits, dict) with `embedded` [B, N, D], `layers`, one
            [B, N, D] a layer, `tokens` after the last norm, and `pooled`.
          attention_weights: as `features`, and `attention`, one [B, H, N, N] a layer.

        Raises:
          ValueError: images are no batch of floats, don't fit the patches, or don't fit
            the position table; or training has no dropout key.
        """
        _check_images(images)
        keys = self._dropout_keys(train)
        embedded, layout = self._embed(images)
        x = regularize.dropout(embedded, self.dropout, keys[0])
        x = regularize.patch_dropout(x, self.patch_dropout, keys[1], layout.num_prefix)
        tokens, outputs = self.encoder(
            x,
            layout,
            dropout_key=keys[2],
            with_layers=features or attention_weights,
            with_weights=attention_weights,
        )
        pooled = self._pooled(tokens, layout.num_prefix)
        logits = pooled if self.head is None else self.head(pooled)
        if not (features or attention_weights):
            return logits
        taps = {"embedded": embedded, "tokens": tokens, "pooled": pooled}
        taps["layers"] = [output.tokens for output in outputs]
        if attention_weights:
            taps["attention"] = [output.weights for output in outputs]
        return logits, taps

    def _embed(self, images: jax.Array) -> tuple[jax.Array, Layout]:
        """Tokens [B, prefix + N, D] with their positions, and how they lie."""
        patches_BYXD = self.stem(images)
        batch, rows, columns, width = patches_BYXD.shape
        x = patches_BYXD.reshape(batch, rows * columns, width)
        table = None if self.position is None else self.position((rows, columns))
        slots = 0 if table is None else table.shape[1] - rows * columns
        if table is not None:
            x = x + table[:, slots:].astype(x.dtype)
        if self.prefix is None:
            return x, Layout(rows, columns, 0)
        prefix_1PD = self.prefix()
        if slots:
            prefix_1PD = prefix_1PD + table[:, :slots]
        num_prefix = prefix_1PD.shape[1]
        prefix_BPD = jnp.broadcast_to(prefix_1PD, (batch, num_prefix, width))
        x = jnp.concatenate([prefix_BPD.astype(x.dtype), x], axis=1)
        return x, Layout(rows, columns, num_prefix)

    def _pooled(self, tokens: jax.Array, num_prefix: int) -> jax.Array:
        x = self.pool(tokens, num_prefix).astype(jnp.float32)
        if self.head_norm is not None:
            x = self.head_norm(x)
        return x if self.pre_logits is None else self.pre_logits(x)

    def _dropout_keys(self, train: bool) -> tuple[jax.Array | None, ...]:
        if not train:
            return None, None, None
        if not self.has_rng("dropout"):
            raise ValueError(
                'train=True needs a key for dropout: pass rngs={"dropout": key}.'
            )
        return tuple(jax.random.split(self.make_rng("dropout"), 3))


def _check_images(images: jax.Array) -> None:
    if images.ndim != 4 or not jnp.issubdtype(images.dtype, jnp.floating):
        raise ValueError(
            f"images of shape {images.shape} and dtype {images.dtype} must be "
            "[batch, rows, columns, channels] in floats, normalised."
        )
