"""Parameters with every tensor drawn anew, so that no zero or one hides a mistake."""

import jax
import jax.numpy as jnp

from vit_jax import trees


def redraw(params, seed=0, scale=0.05):
    """The tree with normals of deviation `scale`; norm scales lie around 1."""

    def draw(name, leaf):
        key = jax.random.fold_in(jax.random.key(seed), hash_of(name))
        noise = scale * jax.random.normal(key, leaf.shape, jnp.float32)
        return 1 + noise if name.endswith("scale") else noise

    return trees.map_named(draw, params)


def hash_of(name):
    """A number of the name that is the same in every process."""
    return sum(position * ord(char) for position, char in enumerate(name, 1))
