"""Images to grids of tokens."""

import flax.linen as nn
import jax
import jax.numpy as jnp


def patchify(images_BYXC: jax.Array, patch_size: int) -> jax.Array:
    """Patches [B, rows, columns, P * P * C]; a patch is flattened row, column, channel.

    Raises:
      ValueError: a side is no multiple of `patch_size`.
    """
    rows, columns = grid_shape(images_BYXC.shape[1:3], patch_size)
    batch, channels = images_BYXC.shape[0], images_BYXC.shape[-1]
    x = images_BYXC.reshape(batch, rows, patch_size, columns, patch_size, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows, columns, -1)


def unpatchify(patches_BYXP: jax.Array, patch_size: int) -> jax.Array:
    """Images [B, Y, X, C] from patches: the inverse of `patchify`."""
    batch, rows, columns, size = patches_BYXP.shape
    channels = size // patch_size**2
    x = patches_BYXP.reshape(batch, rows, columns, patch_size, patch_size, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, rows * patch_size, columns * patch_size, channels)


def grid_shape(image_shape: tuple[int, int], patch_size: int) -> tuple[int, int]:
    """(rows, columns) of patches in an image of (rows, columns) pixels.

    Raises:
      ValueError: a side is no multiple of `patch_size`; names the nearest that are.
    """
    if any(side % patch_size or side < patch_size for side in image_shape):
        nearest = " and ".join(
            _nearest(axis, side, patch_size)
            for axis, side in zip(("rows", "columns"), image_shape, strict=True)
            if side % patch_size or side < patch_size
        )
        raise ValueError(
            f"image_size={tuple(image_shape)} must be a multiple of "
            f"patch_size={patch_size} both ways; nearest: {nearest}."
        )
    return image_shape[0] // patch_size, image_shape[1] // patch_size


def _nearest(axis: str, side: int, patch_size: int) -> str:
    below = side // patch_size * patch_size
    above = below + patch_size
    return f"{below} or {above} {axis}" if below else f"{above} {axis}"


class PatchEmbed(nn.Module):
    """Images [B, Y, X, C] -> tokens [B, rows, columns, D], one per patch.

    A convolution whose stride is its kernel, which is a dense layer on flat patches;
    a `norm` may follow.

    Raises:
      ValueError: a side of the image is no multiple of `patch_size`.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, equation 1.
    """

    patch_size: int
    width: int
    use_bias: bool = True
    norm: nn.Module | None = None
    dtype: jnp.dtype = jnp.float32

    def grid_shape(self, image_shape: tuple[int, int]) -> tuple[int, int]:
        """(rows, columns) of tokens for an image of (rows, columns) pixels."""
        return grid_shape(image_shape, self.patch_size)

    @nn.compact
    def __call__(self, images_BYXC: jax.Array) -> jax.Array:
        self.grid_shape(images_BYXC.shape[1:3])
        sides = (self.patch_size, self.patch_size)
        project = nn.Conv(
            self.width,
            sides,
            sides,
            "VALID",
            use_bias=self.use_bias,
            dtype=self.dtype,
            name="projection",
        )
        x = project(images_BYXC)
        return x if self.norm is None else self.norm(x).astype(self.dtype)


class ConvStem(nn.Module):
    """Images [B, Y, X, C] -> tokens [B, rows, columns, D] by small convolutions.

    As many 3 x 3 convolutions of stride 2 as halve an image to its patches (four for
    16), their widths doubling up to D, each with a norm over channels and relu; then a
    1 x 1 convolution. Layer norm stands for the article's batch norm, which would mix
    the examples of a batch.

    Raises:
      ValueError: a side of the image is no multiple of `patch_size`.

    Source: Xiao et al. 2021, arXiv 2106.14881, section 4.
    """

    patch_size: int
    width: int
    dtype: jnp.dtype = jnp.float32

    def grid_shape(self, image_shape: tuple[int, int]) -> tuple[int, int]:
        """(rows, columns) of tokens for an image of (rows, columns) pixels."""
        return grid_shape(image_shape, self.patch_size)

    @nn.compact
    def __call__(self, images_BYXC: jax.Array) -> jax.Array:
        self.grid_shape(images_BYXC.shape[1:3])
        x = images_BYXC
        for index, channels in enumerate(
            conv_stem_channels(self.patch_size, self.width)
        ):
            conv = nn.Conv(
                channels,
                (3, 3),
                (2, 2),
                padding=1,
                use_bias=False,
                dtype=self.dtype,
                name=f"conv_{index}",
            )
            norm = nn.LayerNorm(
                1e-6, dtype=jnp.float32, use_fast_variance=False, name=f"norm_{index}"
            )
            x = nn.relu(norm(conv(x)).astype(self.dtype))
        return nn.Conv(self.width, (1, 1), dtype=self.dtype, name="projection")(x)


def conv_stem_channels(patch_size: int, width: int) -> list[int]:
    """Channels of each stride-2 convolution: doubling, the last is the width."""
    count = patch_size.bit_length() - 1
    return [max(1, width >> (count - 1 - index)) for index in range(count)]
