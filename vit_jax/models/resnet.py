"""BiT ResNets: the stages are the hybrid's stem; the pre-activation form classifies."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax.layers.conv import GroupNorm, StdConv
from vit_jax.layers.patches import grid_shape
from vit_jax.models.preprocessing import Preprocessing


def norm_groups(mid: int) -> int:
    """Groups of every norm of a ResNet whose root has `mid` channels: 32, as BiT has.

    Narrow ones have fewer, so that no group is a single channel: its mean over the
    image, which after the root is a colour's, would be lost.
    """
    return min(32, mid // 2)


class Unit(nn.Module):
    """A bottleneck [B, Y, X, C] -> [B, Y', X', 4 * mid], norms after convolutions.

    The hybrid's form, relu after the sum.

    Source: He et al. 2015, arXiv 1512.03385, figure 5, as in the original ViT code.
    """

    mid: int
    stride: int
    conv_epsilon: float
    norm_epsilon: float
    groups: int
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        out = 4 * self.mid
        shortcut = x
        if self.stride != 1 or x.shape[-1] != out:
            shortcut = self._conv(out, 1, self.stride, "shortcut")(x)
            shortcut = self._norm("shortcut_norm")(shortcut)
        y = nn.relu(self._norm("norm1")(self._conv(self.mid, 1, 1, "conv1")(x)))
        y = self._conv(self.mid, 3, self.stride, "conv2")(y)
        y = nn.relu(self._norm("norm2")(y))
        y = self._norm("norm3", zero=True)(self._conv(out, 1, 1, "conv3")(y))
        return nn.relu(shortcut + y)

    def _conv(
        self,
        features: int,
        size: int,
        stride: int,
        name: str,
        padding: str | int = "SAME",
    ) -> StdConv:
        return StdConv(
            features, size, stride, padding, self.conv_epsilon, self.dtype, name=name
        )

    def _norm(self, name: str, zero: bool = False) -> GroupNorm:
        return GroupNorm(self.norm_epsilon, self.groups, zero, self.dtype, name=name)


class PreactUnit(Unit):
    """A bottleneck [B, Y, X, C] -> [B, Y', X', 4 * mid], norms before convolutions.

    BiT's form, nothing after the sum; padding is symmetric.

    Source: He et al. 2016, arXiv 1603.05027, figure 4e; Kolesnikov et al. 2020, arXiv
    1912.11370.
    """

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        out = 4 * self.mid
        y = nn.relu(self._norm("norm1")(x))
        shortcut = x
        if self.stride != 1 or x.shape[-1] != out:
            shortcut = self._conv(out, 1, self.stride, "shortcut")(y)
        y = self._conv(self.mid, 1, 1, "conv1")(y)
        y = nn.relu(self._norm("norm2")(y))
        y = self._conv(self.mid, 3, self.stride, "conv2", padding=1)(y)
        y = nn.relu(self._norm("norm3")(y))
        return shortcut + self._conv(out, 1, 1, "conv3")(y)


class Stages(nn.Module):
    """[B, Y, X, C] -> feature map: `units[i]` bottlenecks in `stage_i`.

    The first stage keeps the resolution, each further one halves it and doubles `mid`.
    """

    units: tuple[int, ...]
    mid: int
    preact: bool
    conv_epsilon: float
    norm_epsilon: float
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        unit = PreactUnit if self.preact else Unit
        for stage, count in enumerate(self.units):
            for index in range(count):
                x = unit(
                    self.mid * 2**stage,
                    2 if stage and not index else 1,
                    self.conv_epsilon,
                    self.norm_epsilon,
                    norm_groups(self.mid),
                    self.dtype,
                    name=f"stage_{stage}_unit_{index}",
                )(x)
        return x


class ResNetStem(nn.Module):
    """Images [B, Y, X, C] -> tokens [B, rows, columns, D]: the hybrid's front.

    A root (7 x 7 convolution, max pooling: a quarter of the resolution), the stages,
    and patches of the feature map.

    Args:
      units: bottlenecks of each stage; none: the root alone.
      patch_size: side of a patch of the feature map.
      width: D.
      mid: channels of the root and of the first stage's middle.
      project: whether a projection follows even where the channels fit the width.
      conv_epsilon, norm_epsilon: of weight standardisation and group norm.
      dtype: of activations.

    Source: Dosovitskiy et al. 2021, arXiv 2010.11929, section 3.1 and appendix B.1.
    """

    units: tuple[int, ...]
    patch_size: int
    width: int
    mid: int = 64
    project: bool = True
    conv_epsilon: float = 1e-5
    norm_epsilon: float = 1e-6
    dtype: jnp.dtype = jnp.float32

    def grid_shape(self, image_shape: tuple[int, int]) -> tuple[int, int]:
        """(rows, columns) of tokens, from the real feature map: halves round up.

        Raises:
          ValueError: the feature map is no multiple of the patch.
        """
        halved = 2 ** (2 + max(0, len(self.units) - 1))
        features = tuple(-(-side // halved) for side in image_shape)
        if any(side % self.patch_size for side in features):
            # In pixels, as they are asked for: whole tokens are the legal sizes' step.
            return grid_shape(image_shape, halved * self.patch_size)
        return grid_shape(features, self.patch_size)

    @nn.compact
    def __call__(self, images_BYXC: jax.Array) -> jax.Array:
        """The tokens.

        Raises:
          ValueError: the feature map is no multiple of the patch, or no projection is
            wanted where it is needed.
        """
        self.grid_shape(images_BYXC.shape[1:3])
        conv = StdConv(
            self.mid, 7, 2, "SAME", self.conv_epsilon, self.dtype, name="root"
        )
        groups = norm_groups(self.mid)
        norm = GroupNorm(self.norm_epsilon, groups, dtype=self.dtype, name="root_norm")
        x = norm(conv(images_BYXC))
        x = nn.max_pool(nn.relu(x), (3, 3), (2, 2), "SAME")
        epsilons = self.conv_epsilon, self.norm_epsilon
        x = Stages(self.units, self.mid, False, *epsilons, self.dtype, name="stages")(x)
        sides = (self.patch_size, self.patch_size)
        if self.project:
            conv = nn.Conv(
                self.width, sides, sides, "VALID", dtype=self.dtype, name="projection"
            )
            return conv(x)
        if self.patch_size != 1 or x.shape[-1] != self.width:
            raise ValueError(
                f"stem_projection=False needs patch_size=1 and width={x.shape[-1]}, "
                f"the channels; they are {self.patch_size} and {self.width}."
            )
        return x


class ResNet(nn.Module):
    """Images [B, Y, X, C] -> logits [B, V] in float32: BiT, the paper's CNN baseline.

    Args:
      units: bottlenecks of each stage.
      mid: channels of the root and of the first stage's middle.
      head: features -> logits; None returns the features.
      conv_epsilon, norm_epsilon: of weight standardisation and group norm.
      dtype: of activations.
      preprocessing: what images it was made for.

    Source: Kolesnikov et al. 2020, arXiv 1912.11370.
    """

    units: tuple[int, ...]
    mid: int
    head: nn.Module | None
    conv_epsilon: float = 1e-5
    norm_epsilon: float = 1e-5
    dtype: jnp.dtype = jnp.float32
    preprocessing: Preprocessing = Preprocessing()

    @nn.compact
    def __call__(self, images: jax.Array, *, train: bool = False) -> jax.Array:
        """Logits; `train` changes nothing, since there is no noise in it."""
        x = StdConv(self.mid, 7, 2, 3, self.conv_epsilon, self.dtype, name="root")(
            images
        )
        x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        x = nn.max_pool(x, (3, 3), (2, 2), "VALID")
        epsilons = self.conv_epsilon, self.norm_epsilon
        x = Stages(self.units, self.mid, True, *epsilons, self.dtype, name="stages")(x)
        groups = norm_groups(self.mid)
        norm = GroupNorm(self.norm_epsilon, groups, dtype=self.dtype, name="norm")
        x = nn.relu(norm(x))
        x = jnp.mean(x, axis=(1, 2), dtype=jnp.float32)
        return x if self.head is None else self.head(x)
