"""Our parameters from a timm model's state dict, for the forms that tests build."""

import numpy as np

from vit_jax import trees

_WHOLE = {
    "cls_token": "prefix/class_token",
    "reg_token": "prefix/registers",
    "pos_embed": "position/table",
    "attn_pool.latent": "pool/probe",
}
_LAYERS = {
    "patch_embed.proj": "stem/projection",
    "patch_embed.backbone.stem.conv": "stem/root",
    "patch_embed.backbone.stem.norm": "stem/root_norm",
    "patch_embed.backbone.conv": "stem/root",
    "patch_embed.backbone.norm": "stem/root_norm",
    "norm_pre": "encoder/first_norm",
    "norm": "encoder/norm",
    "fc_norm": "head_norm",
    "head": "head",
    "attn_pool.norm": "pool/norm",
    "attn_pool.mlp.fc1": "pool/mlp/hidden",
    "attn_pool.mlp.fc2": "pool/mlp/out",
}
_IN_BLOCK = {
    "norm1": "attention_norm",
    "norm2": "mlp_norm",
    "mlp.fc1": "mlp/hidden",
    "mlp.fc2": "mlp/out",
    "attn.q_norm": "attention/query_norm",
    "attn.k_norm": "attention/key_norm",
    "ls1": "attention_scale",
    "ls2": "mlp_scale",
}
_IN_UNIT = {"downsample.conv": "shortcut", "downsample.norm": "shortcut_norm"}


def from_timm(state, num_heads, swiglu=False):
    """The nested dict of our names for a timm `state_dict()`."""
    flat = {}
    for name, tensor in state.items():
        array = tensor.numpy()
        if name in _WHOLE:
            flat[_WHOLE[name]] = array
        else:
            layer, leaf = name.rsplit(".", 1)
            flat.update(_translate(layer, leaf, array, num_heads, swiglu))
    return trees.unflatten(flat)


def resnet_from_timm(state):
    """The nested dict of our names for a timm `resnetv2_*_bit`."""
    flat = {}
    names = {"stem.conv": "root", "norm": "norm", "head.fc": "head"}
    for name, tensor in state.items():
        layer, leaf = name.rsplit(".", 1)
        array = tensor.numpy()
        if layer == "head.fc" and leaf == "weight":
            array = array[:, :, 0, 0]
        ours = names[layer] if layer in names else _unit(layer)
        flat.update(_plain(ours, leaf, array))
    return trees.unflatten(flat)


def _translate(layer, leaf, array, num_heads, swiglu):
    if layer in _LAYERS:
        return _plain(_LAYERS[layer], leaf, array)
    if "stages." in layer:
        return _plain(
            "stem/" + _unit(layer.removeprefix("patch_embed.backbone.")), leaf, array
        )
    if layer.startswith("attn_pool."):
        folder, part = "pool", layer.removeprefix("attn_pool.")
        names = {"q": ["query"], "kv": ["key", "value"], "proj": ["out"]}[part]
        return _heads(names, folder, leaf, array, num_heads)
    _, index, part = layer.split(".", 2)
    block = f"encoder/block_{index}"
    if part == "mlp.fc1" and swiglu:
        gate, hidden = np.split(array, 2)
        return _plain(f"{block}/mlp/gate", leaf, gate) | _plain(
            f"{block}/mlp/hidden", leaf, hidden
        )
    if part in _IN_BLOCK:
        return _plain(f"{block}/{_IN_BLOCK[part]}", leaf, array)
    names = {"attn.qkv": ["query", "key", "value"], "attn.proj": ["out"]}[part]
    return _heads(names, f"{block}/attention", leaf, array, num_heads)


def _unit(layer):
    _, stage, _, unit, part = layer.split(".", 4)
    return f"stages/stage_{stage}_unit_{unit}/{_IN_UNIT.get(part, part)}"


def _heads(names, folder, leaf, array, num_heads):
    flat = {}
    for name, part in zip(names, np.split(array, len(names)), strict=True):
        if leaf == "bias":
            ours = part if name == "out" else part.reshape(num_heads, -1)
        elif name == "out":
            ours = part.T.reshape(num_heads, -1, part.shape[0])
        else:
            ours = part.T.reshape(part.shape[1], num_heads, -1)
        flat[f"{folder}/{name}/{'kernel' if leaf == 'weight' else 'bias'}"] = ours
    return flat


def _plain(layer, leaf, array):
    if leaf in ("bias", "gamma"):
        return {f"{layer}/{leaf}": array}
    if array.ndim == 1:
        return {f"{layer}/scale": array}
    axes = (2, 3, 1, 0) if array.ndim == 4 else (1, 0)
    return {f"{layer}/kernel": array.transpose(axes)}
