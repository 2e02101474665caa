"""The original code's forward pass restated in NumPy, on arrays by its own names.

What it computes is as google-research/vision_transformer computes it (models_vit.py,
models_resnet.py); nothing here is shared with vit_jax. Each function takes the arrays
below its own prefix. Images are [B, Y, X, C], in any float type.
"""

import numpy as np


def below(arrays, prefix):
    """The arrays under a prefix, which is cut off."""
    start = f"{prefix}/"
    return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}


def layer_norm(p, x):
    """Over the channels, epsilon 1e-6."""
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    return centred / deviation * p["scale"] + p["bias"]


def gelu(x):
    """By tanh, Flax's default."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def attention(p, x):
    """Self-attention, every head's kernel apart: [D, H, K], and [H, K, D] of `out`."""
    query, key, value = (
        np.tensordot(x, p[f"{part}/kernel"], 1) + p[f"{part}/bias"]
        for part in ("query", "key", "value")
    )
    scores = np.einsum("bnhk,bmhk->bhnm", query / np.sqrt(query.shape[-1]), key)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    weights = scores / scores.sum(-1, keepdims=True)
    mixed = np.einsum("bhnm,bmhk->bnhk", weights, value)
    return np.tensordot(mixed, p["out/kernel"], 2) + p["out/bias"]


def mlp(p, x):
    """Two layers with GELU between."""
    hidden = gelu(x @ p["Dense_0/kernel"] + p["Dense_0/bias"])
    return hidden @ p["Dense_1/kernel"] + p["Dense_1/bias"]


def block(p, x):
    """Norm, attention, sum; norm, MLP, sum; in the numbering of the public files."""
    y = layer_norm(below(p, "LayerNorm_0"), x)
    x = x + attention(below(p, "MultiHeadDotProductAttention_1"), y)
    y = layer_norm(below(p, "LayerNorm_2"), x)
    return x + mlp(below(p, "MlpBlock_3"), y)


def windows(x, size, stride, fill=0.0):
    """SAME windows [B, Y', X', size, size, C]; what is odd is padded at the end."""
    pads = [(0, 0)]
    for side in x.shape[1:3]:
        whole = max((-(-side // stride) - 1) * stride + size - side, 0)
        pads.append((whole // 2, whole - whole // 2))
    x = np.pad(x, [*pads, (0, 0)], constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return np.moveaxis(found[:, ::stride, ::stride], 3, -1)


def std_conv(kernel, x, stride=1):
    """SAME; the kernel loses its mean and is divided by its deviation + 1e-5."""
    kernel = kernel - kernel.mean((0, 1, 2))
    kernel = kernel / (kernel.std((0, 1, 2)) + 1e-5)
    return np.tensordot(windows(x, len(kernel), stride), kernel, 3)


def group_norm(p, x):
    """32 groups, epsilon 1e-6."""
    groups = x.reshape(len(x), -1, 32, x.shape[-1] // 32)
    centred = groups - groups.mean((1, 3), keepdims=True)
    deviation = np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-6)
    return (centred / deviation).reshape(x.shape) * p["scale"] + p["bias"]


def unit(p, x, stride):
    """A bottleneck; its shortcut is projected where it has a projection."""
    shortcut = x
    if "conv_proj/kernel" in p:
        shortcut = std_conv(p["conv_proj/kernel"], x, stride)
        shortcut = group_norm(below(p, "gn_proj"), shortcut)
    y = np.maximum(group_norm(below(p, "gn1"), std_conv(p["conv1/kernel"], x)), 0)
    y = std_conv(p["conv2/kernel"], y, stride)
    y = np.maximum(group_norm(below(p, "gn2"), y), 0)
    y = group_norm(below(p, "gn3"), std_conv(p["conv3/kernel"], y))
    return np.maximum(shortcut + y, 0)


def root(p, images):
    """A hybrid's 7 x 7 convolution and its pooling; a quarter of the resolution."""
    x = group_norm(below(p, "gn_root"), std_conv(p["conv_root/kernel"], images, 2))
    return windows(np.maximum(x, 0), 3, 2, fill=-np.inf).max((3, 4))


def patches(p, x):
    """VALID patches side by side, [B, rows, columns, D]; a rest is cut off."""
    size = len(p["kernel"])
    rows, columns = x.shape[1] // size, x.shape[2] // size
    x = x[:, : rows * size, : columns * size]
    x = x.reshape(len(x), rows, size, columns, size, -1).transpose(0, 1, 3, 2, 4, 5)
    return np.tensordot(x, p["kernel"], 3) + p["bias"]


def units_of(p):
    """(name, stride) of each bottleneck, in order."""
    found = []
    for stage in range(1, 5):
        for number in range(1, 100):
            name = f"block{stage}/unit{number}"
            if f"{name}/conv1/kernel" in p:
                found.append((name, 2 if stage > 1 and number == 1 else 1))
    return found


def stem(p, images):
    """The front: tokens [B, rows, columns, D]."""
    x = images
    if "conv_root/kernel" in p:
        x = root(p, x)
    for name, stride in units_of(p):
        x = unit(below(p, name), x, stride)
    return patches(below(p, "embedding"), x)


def encoder(p, x):
    """Positions, blocks in the order of their numbers, and the last norm."""
    x = x + p["posembed_input/pos_embedding"]
    for layer in range(len([n for n in p if n.endswith("LayerNorm_0/scale")])):
        x = block(below(p, f"encoderblock_{layer}"), x)
    return layer_norm(below(p, "encoder_norm"), x)


def forward(p, images):
    """Logits [B, V]: of the class token where there is one, else of the mean."""
    x = stem(p, images)
    x = x.reshape(len(x), -1, x.shape[-1])
    if "cls" in p:
        x = np.concatenate([np.broadcast_to(p["cls"], (len(x), 1, x.shape[-1])), x], 1)
    x = encoder(below(p, "Transformer"), x)
    x = x[:, 0] if "cls" in p else x.mean(1)
    if "pre_logits/kernel" in p:
        x = np.tanh(x @ p["pre_logits/kernel"] + p["pre_logits/bias"])
    return x @ p["head/kernel"] + p["head/bias"]
