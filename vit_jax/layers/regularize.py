"""Noise that regularizes training: pure functions of an explicit key.

A key of None means evaluation: the input comes back untouched.
"""

import jax
import jax.numpy as jnp


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """`x` with a share `rate` of its elements zeroed, the rest scaled to keep the mean.

    Source: Srivastava et al. 2014, JMLR 15.
    """
    if key is None or rate == 0:
        return x
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0).astype(x.dtype)


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
