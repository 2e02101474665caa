"""The Vision Transformer, put together from its parts."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers import regularize


class VisionTransformer(nn.Module):
    """Images [B, Y, X, C] -> logits [B, V] in float32.

    `vit_jax.create_model` builds the parts from a name and flat keywords.

    Args:
      stem: images -> tokens [B, rows, columns, D].
      prefix: the tokens [1, prefix, D] that precede the patches; None for none.
      position: grid -> table [1, slots + N, D] to be added; None for none.
      encoder: tokens -> tokens.
      pool: tokens -> one vector.
      pre_logits: a layer before the head; None for none.
      head: vector -> logits; None returns the vector.
      dropout: share of the embedded tokens' elements dropped in training.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, figure 1 and equations 1 to 4.
    """

    stem: nn.Module
    prefix: nn.Module | None
    position: nn.Module | None
    encoder: nn.Module
    pool: nn.Module
    pre_logits: nn.Module | None
    head: nn.Module | None
    dropout: float = 0.0

    @nn.compact
    def __call__(self, images: jax.Array, *, train: bool = False) -> jax.Array:
        """Logits, or features where there is no head.

        Args:
          images: floats, already normalised.
          train: draws dropout and stochastic depth from `rngs={"dropout": key}`.

        Raises:
          ValueError: images are no batch of floats, don't fit the patches, or don't fit
            the position table; or training has no dropout key.
        """
        _check_images(images)
        keys = self._dropout_keys(train)
        x, num_prefix = self._embed(images)
        x = regularize.dropout(x, self.dropout, keys[0])
        x = self.encoder(x, dropout_key=keys[1])
        x = self.pool(x, num_prefix).astype(jnp.float32)
        if self.pre_logits is not None:
            x = self.pre_logits(x)
        return x if self.head is None else self.head(x)

    def _embed(self, images: jax.Array) -> tuple[jax.Array, int]:
        """Tokens [B, prefix + N, D] with their positions, and the prefix's length."""
        patches_BYXD = self.stem(images)
        batch, rows, columns, width = patches_BYXD.shape
        x = patches_BYXD.reshape(batch, rows * columns, width)
        num_prefix = 0
        if self.prefix is not None:
            prefix_1PD = self.prefix().astype(x.dtype)
            num_prefix = prefix_1PD.shape[1]
            prefix_BPD = jnp.broadcast_to(prefix_1PD, (batch, num_prefix, width))
            x = jnp.concatenate([prefix_BPD, x], axis=1)
        if self.position is not None:
            x = x + self.position((rows, columns)).astype(x.dtype)
        return x, num_prefix

    def _dropout_keys(self, train: bool) -> tuple[jax.Array | None, jax.Array | None]:
        if not train:
            return None, None
        if not self.has_rng("dropout"):
            raise ValueError(
                'train=True needs a key for dropout: pass rngs={"dropout": key}.'
            )
        first, second = jax.random.split(self.make_rng("dropout"))
        return first, second


def _check_images(images: jax.Array) -> None:
    if images.ndim != 4 or not jnp.issubdtype(images.dtype, jnp.floating):
        raise ValueError(
            f"images of shape {images.shape} and dtype {images.dtype} must be "
            "[batch, rows, columns, channels] in floats, normalised."
        )
