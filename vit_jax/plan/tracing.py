"""FLOPs of a traced function, loops in full."""

import math
from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr

_JAXPRS = (Jaxpr, ClosedJaxpr)


def flops(jaxpr: Any, *, loops: bool = True) -> int:
    """FLOPs of the products and convolutions of a jaxpr.

    Args:
      jaxpr: a `Jaxpr` or `ClosedJaxpr`, such as `jax.stages.Traced.jaxpr`.
      loops: False counts the body of each scan once, as XLA's cost analysis does.
    """
    total = 0
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name = equation.primitive.name
        if name == "dot_general":
            total += _product(equation)
        elif name == "conv_general_dilated":
            total += _convolution(equation)
        times = equation.params["length"] if loops and name == "scan" else 1
        total += times * sum(flops(inner, loops=loops) for inner in _inner(equation))
    return total


def _product(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    sides = equation.invars[0].aval.shape
    summed = math.prod(sides[axis] for axis in contracted)
    return 2 * summed * math.prod(equation.outvars[0].aval.shape)


def _convolution(equation: Any) -> int:
    numbers = equation.params["dimension_numbers"]
    kernel = equation.invars[1].aval.shape
    summed = math.prod(kernel) // kernel[numbers.rhs_spec[0]]
    made = 2 * summed * math.prod(equation.outvars[0].aval.shape)
    return made // math.prod(equation.params["lhs_dilation"])


def _inner(equation: Any) -> Iterator[Any]:
    """The jaxprs that an equation runs."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, _JAXPRS):
                yield part
