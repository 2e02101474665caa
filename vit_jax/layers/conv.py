"""Convolutions and group norm of BiT."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class StdConv(nn.Module):
    """[B, Y, X, C] -> [B, Y', X', features]: a weight-standardised convolution.

    Without bias. For each output channel the kernel loses its mean and is divided by
    its deviation plus `epsilon` (1e-5 in the original code; timm's 1e-8 lies inside the
    square root).

    Source: Qiao et al. 2019, arXiv 1903.10520; Kolesnikov et al. 2020, arXiv
    1912.11370.
    """

    features: int
    kernel_size: int
    stride: int = 1
    padding: str | int = "SAME"
    epsilon: float = 1e-5
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        size = self.kernel_size
        kernel_PPCD = self.param(
            "kernel",
            nn.initializers.lecun_normal(),
            (size, size, x.shape[-1], self.features),
        )
        axes = (0, 1, 2)
        centred = kernel_PPCD - kernel_PPCD.mean(axes, keepdims=True)
        deviation = jnp.std(kernel_PPCD, axis=axes, keepdims=True)
        # A filter of one value stays zeros, without an epsilon too.
        scale = deviation + self.epsilon
        kernel_PPCD = centred / jnp.where(scale > 0, scale, 1.0)
        padding = self.padding
        if isinstance(padding, int):
            padding = ((padding, padding),) * 2
        return jax.lax.conv_general_dilated(
            x.astype(self.dtype),
            kernel_PPCD.astype(self.dtype),
            (self.stride, self.stride),
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )


class GroupNorm(nn.Module):
    """[B, Y, X, C] -> the same, normalised over each image's groups of channels.

    BiT has 32 `groups`. Computed in float32. `zero` starts the scale at 0, so that a
    residual branch starts as nothing.

    Source: Wu and He 2018, arXiv 1803.08494.
    """

    epsilon: float = 1e-6
    groups: int = 32
    zero: bool = False
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        batch, rows, columns, channels = x.shape
        start = nn.initializers.zeros if self.zero else nn.initializers.ones
        scale_C = self.param("scale", start, (channels,))
        bias_C = self.param("bias", nn.initializers.zeros, (channels,))
        groups = x.astype(jnp.float32).reshape(
            batch, rows * columns, self.groups, channels // self.groups
        )
        mean = groups.mean(axis=(1, 3), keepdims=True)
        variance = jnp.var(groups, axis=(1, 3), keepdims=True)
        normal = (groups - mean) * jax.lax.rsqrt(variance + self.epsilon)
        x = normal.reshape(batch, rows, columns, channels)
        return (x * scale_C[None, None, None] + bias_C[None, None, None]).astype(
            self.dtype
        )
