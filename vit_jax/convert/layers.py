"""Rules of single layers, from which the layouts' tables are put together.

Ours are `kernel` [inputs, outputs], convolutions [rows, columns, inputs, outputs],
heads apart [D, H, K]; PyTorch's are `weight`, outputs first, heads joined.
"""

from collections.abc import Callable, Sequence

import numpy as np

from vit_jax.convert.rules import Arrays, Rule, stacked


def _each(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], Arrays]:
    return lambda arrays: [function(array) for array in arrays]


def same(ours: str, theirs: str) -> Rule:
    """One array under two names."""
    return Rule((ours,), (theirs,), list, list)


def shaped(
    ours: str, theirs: str, there: tuple[int, ...], back: tuple[int, ...]
) -> Rule:
    """One array in two shapes; -1 stands for what is left."""
    return Rule(
        (ours,),
        (theirs,),
        _each(lambda array: array.reshape(there)),
        _each(lambda array: array.reshape(back)),
    )


def norm(ours: str, theirs: str, bias: bool = True) -> list[Rule]:
    """Scale and bias of a norm; RMS norms have no bias."""
    rules = [same(f"{ours}/scale", f"{theirs}.weight")]
    return [*rules, same(f"{ours}/bias", f"{theirs}.bias")] if bias else rules


def dense(ours: str, theirs: str, bias: bool = True) -> list[Rule]:
    """A linear layer."""
    turn = _each(np.transpose)
    rules = [Rule((f"{ours}/kernel",), (f"{theirs}.weight",), turn, turn)]
    return [*rules, same(f"{ours}/bias", f"{theirs}.bias")] if bias else rules


def conv(ours: str, theirs: str, bias: bool = True) -> list[Rule]:
    """A convolution: rows, columns, inputs, outputs <-> outputs, inputs, rows, …"""
    kernel = Rule(
        (f"{ours}/kernel",),
        (f"{theirs}.weight",),
        _each(lambda array: array.transpose(3, 2, 0, 1)),
        _each(lambda array: array.transpose(2, 3, 1, 0)),
    )
    return [kernel, same(f"{ours}/bias", f"{theirs}.bias")] if bias else [kernel]


def flat_patches(
    ours: str, theirs: str, patch_size: int, *, channels_first: bool = False
) -> list[Rule]:
    """A patch projection that PyTorch has as a linear layer on flattened patches.

    They are flattened by row, column, channel; or by channel, row, column.
    """
    order = (3, 2, 0, 1) if channels_first else (3, 0, 1, 2)
    sides = (patch_size, patch_size)

    def there(array: np.ndarray) -> np.ndarray:
        return array.transpose(order).reshape(array.shape[-1], -1)

    def back(array: np.ndarray) -> np.ndarray:
        apart = (-1, *sides) if channels_first else (*sides, -1)
        array = array.reshape(len(array), *apart)
        return array.transpose(np.argsort(order))

    kernel = Rule((f"{ours}/kernel",), (f"{theirs}.weight",), _each(there), _each(back))
    return [kernel, same(f"{ours}/bias", f"{theirs}.bias")]


def split_heads(
    ours: str, theirs: Sequence[str], heads: int, bias: bool = True
) -> list[Rule]:
    """Query, key and value, each a linear layer of its own over there."""
    rules = []
    for part, name in zip(("query", "key", "value"), theirs, strict=True):
        rules += _joined(ours, (part,), f"{name}.weight", f"{name}.bias", heads, bias)
    return rules


def fused_heads(
    ours: str,
    weight: str,
    heads: int,
    bias: str | None,
    parts: tuple[str, ...] = ("query", "key", "value"),
    query_scale: float = 1.0,
) -> list[Rule]:
    """Query, key and value in one linear layer over there, [3 D, D].

    Args:
      weight, bias: their names; no bias where None.
      heads: H.
      parts: which of ours stand one after another in it.
      query_scale: what the query is multiplied with when it comes to us: for a model
        that scales its softmax otherwise than by K ** -0.5.
    """
    return _joined(
        ours, parts, weight, bias or "", heads, bias is not None, query_scale
    )


def _joined(
    ours: str,
    parts: tuple[str, ...],
    weight: str,
    bias_name: str,
    heads: int,
    bias: bool,
    query_scale: float = 1.0,
) -> list[Rule]:
    def scaled(arrays: Sequence[np.ndarray], scale: float) -> list[np.ndarray]:
        if scale == 1:
            return list(arrays)
        first = (arrays[0] * np.float32(scale)).astype(arrays[0].dtype)
        return [first, *arrays[1:]]

    def there(arrays: Arrays) -> Arrays:
        arrays = scaled(arrays, 1 / query_scale)
        return [stacked([a.reshape(len(a), -1).T for a in arrays])]

    def back(arrays: Arrays) -> Arrays:
        split = np.split(arrays[0], len(parts))
        return scaled([a.T.reshape(a.shape[1], heads, -1) for a in split], query_scale)

    def bias_there(arrays: Arrays) -> Arrays:
        arrays = scaled(arrays, 1 / query_scale)
        return [np.concatenate([a.reshape(-1) for a in arrays])]

    def bias_back(arrays: Arrays) -> Arrays:
        split = np.split(arrays[0], len(parts))
        return scaled([a.reshape(heads, -1) for a in split], query_scale)

    fold = "" if query_scale == 1 else "the softmax scale is folded into the query"
    kernels = tuple(f"{ours}/{part}/kernel" for part in parts)
    rules = [Rule(kernels, (weight,), there, back, fold)]
    if bias:
        biases = tuple(f"{ours}/{part}/bias" for part in parts)
        rules.append(Rule(biases, (bias_name,), bias_there, bias_back, fold))
    return rules


def out_projection(ours: str, theirs: str, heads: int, bias: bool = True) -> list[Rule]:
    """The layer that joins the heads, [H, K, D] <-> [D, H K]."""
    kernel = Rule(
        (f"{ours}/kernel",),
        (f"{theirs}.weight",),
        _each(lambda array: array.reshape(-1, array.shape[-1]).T),
        _each(lambda array: array.T.reshape(heads, -1, len(array))),
    )
    return [kernel, same(f"{ours}/bias", f"{theirs}.bias")] if bias else [kernel]


def packed(ours: tuple[str, str], theirs: str, bias: bool = True) -> list[Rule]:
    """Two linear layers, one after another in one of theirs (gate, then hidden)."""

    def there(arrays: Arrays) -> Arrays:
        return [stacked([array.T for array in arrays])]

    def back(arrays: Arrays) -> Arrays:
        return [array.T for array in np.split(arrays[0], 2)]

    def joined(arrays: Arrays) -> Arrays:
        return [np.concatenate(arrays)]

    def halves(arrays: Arrays) -> Arrays:
        return np.split(arrays[0], 2)

    kernels = tuple(f"{name}/kernel" for name in ours)
    rules = [Rule(kernels, (f"{theirs}.weight",), there, back)]
    if bias:
        biases = tuple(f"{name}/bias" for name in ours)
        rules.append(Rule(biases, (f"{theirs}.bias",), joined, halves))
    return rules
