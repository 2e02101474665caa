"""What regularizes training: noise from an explicit key, and small residual scales.

A key of None means evaluation: the input comes back untouched.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """`x` with a share `rate` of its elements zeroed, the rest scaled to keep the mean.

    Source: Srivastava et al. 2014, JMLR 15.
    """
    if key is None or rate == 0:
        return x
    # Sixteen random bits an element cost half of what a float32 draw costs, and the
    # draw is most of what dropout costs.
    dropped = round(rate * 2**16)
    keep = jax.random.bits(key, x.shape, jnp.uint16) >= dropped
    return jnp.where(keep, x / (1 - dropped / 2**16), 0).astype(x.dtype)


def stochastic_depth(
    x_BND: jax.Array, rate: jax.Array | float, key: jax.Array | None
) -> jax.Array:
    """A residual branch, dropped whole for a share `rate` of the examples.

    `rate` may be traced, so that a scan over layers can raise it with depth.

    Source: Huang et al. 2016, arXiv 1603.09382.
    """
    if key is None:
        return x_BND
    keep = jax.random.bernoulli(key, 1 - rate, (x_BND.shape[0], 1, 1))
    return jnp.where(keep, x_BND / (1 - rate), 0).astype(x_BND.dtype)


def patch_dropout(
    x_BND: jax.Array, rate: float, key: jax.Array | None, num_prefix: int
) -> jax.Array:
    """The prefix and, for each example, a random subset of the patches in their order.

    A share `rate` is left out, at least one patch stays; evaluation keeps all.

    Source: Liu et al. 2022, arXiv 2208.07220.
    """
    if key is None or rate == 0:
        return x_BND
    batch, patches = x_BND.shape[0], x_BND.shape[1] - num_prefix
    keep = max(1, round(patches * (1 - rate)))
    order_BN = jnp.argsort(jax.random.uniform(key, (batch, patches)), axis=1)
    kept_BN = jnp.sort(order_BN[:, :keep], axis=1) + num_prefix
    kept_BND = jnp.take_along_axis(x_BND, kept_BN[..., None], axis=1)
    return jnp.concatenate([x_BND[:, :num_prefix], kept_BND], axis=1)


class LayerScale(nn.Module):
    """A residual branch times a learned `gamma` [D] that starts at `init_value`.

    Source: Touvron et al. 2021, arXiv 2103.17239, section 3.
    """

    init_value: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = nn.initializers.constant(self.init_value)
        gamma_D = self.param("gamma", init, (x.shape[-1],))
        return x * gamma_D.astype(x.dtype)[None, None]
