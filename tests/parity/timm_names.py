"""Our parameters from a timm Vision Transformer's state dict."""

import numpy as np

from vit_jax import trees


def from_timm(state, num_heads):
    """The nested dict of our names for a timm `state_dict()`."""
    flat = {}
    for name, tensor in state.items():
        flat.update(_translate(name, tensor.numpy(), num_heads))
    return trees.unflatten(flat)


_WHOLE = {
    "cls_token": "prefix/class_token",
    "pos_embed": "position/table",
    "patch_embed.proj": "stem/projection",
    "norm": "encoder/norm",
    "fc_norm": "head_norm",
    "head": "head",
}
_IN_BLOCK = {
    "norm1": "attention_norm",
    "norm2": "mlp_norm",
    "mlp.fc1": "mlp/hidden",
    "mlp.fc2": "mlp/out",
}


def _translate(name, array, num_heads):
    if name in _WHOLE:
        return {_WHOLE[name]: array}
    layer, leaf = name.rsplit(".", 1)
    if layer in _WHOLE:
        return _plain(_WHOLE[layer], leaf, array)
    _, index, part = layer.split(".", 2)
    block = f"encoder/block_{index}"
    if part in _IN_BLOCK:
        return _plain(f"{block}/{_IN_BLOCK[part]}", leaf, array)
    if part == "attn.proj":
        kernel = {"weight": "kernel"}.get(leaf, leaf)
        array = (
            array.T.reshape(num_heads, -1, array.shape[0]) if array.ndim == 2 else array
        )
        return {f"{block}/attention/out/{kernel}": array}
    assert part == "attn.qkv", name
    return {
        f"{block}/attention/{which}/{'kernel' if leaf == 'weight' else 'bias'}": (
            third.T.reshape(third.shape[1], num_heads, -1)
            if leaf == "weight"
            else third.reshape(num_heads, -1)
        )
        for which, third in zip(
            ("query", "key", "value"), np.split(array, 3), strict=True
        )
    }


def _plain(layer, leaf, array):
    if leaf == "bias":
        return {f"{layer}/bias": array}
    if array.ndim == 1:
        return {f"{layer}/scale": array}
    axes = (2, 3, 1, 0) if array.ndim == 4 else (1, 0)
    return {f"{layer}/kernel": array.transpose(axes)}
