"""The gradient of a large batch, a part of it at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

ValueAndGradient = Callable[[Any, Any, jax.Array], tuple[jax.Array, Any]]


def accumulated(function: ValueAndGradient, steps: int) -> ValueAndGradient:
    """`function` on a whole batch, run on `steps` parts of it one after another.

    What it gives is the sum over the parts, so it is that of the whole batch if
    `function` gives sums over examples (each weighted by its share of the batch, not by
    its share of the part). Memory is that of one part and of one more gradient.

    Args:
      function: (params, batch, key) -> (value, gradient), where each leaf of the batch
        is [B, …].
      steps: must divide B; 1 gives `function` back. Part m has the examples m,
        m + steps, m + 2 * steps, …, so that each device cuts what it holds, and the
        key with m folded in, so that no two parts draw the same noise.

    Source: function transformer as in Levanter's `grad_accum`; the exact average is
    that of Goyal et al. 2017, arXiv 1706.02677, section 3.
    """
    if steps == 1:
        return function

    def over_parts(params: Any, batch: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        parts = jax.tree.map(lambda leaf: _cut(leaf, steps), batch)
        first = jax.tree.map(lambda leaf: leaf[0], parts)
        shapes = jax.eval_shape(function, params, first, key)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        def add(sums: Any, numbered: tuple[jax.Array, Any]) -> tuple[Any, None]:
            number, part = numbered
            found = function(params, part, jax.random.fold_in(key, number))
            return jax.tree.map(jnp.add, sums, found), None

        sums, _ = jax.lax.scan(add, zeros, (jnp.arange(steps), parts))
        return sums

    return over_parts


def _cut(leaf: jax.Array, steps: int) -> jax.Array:
    """[B, …] -> [steps, B / steps, …], example i in part i mod steps."""
    size = leaf.shape[0]
    assert size % steps == 0, (size, steps)
    return jnp.swapaxes(leaf.reshape(size // steps, steps, *leaf.shape[1:]), 0, 1)
