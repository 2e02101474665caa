"""Three small Vision Transformers as articles write them by hand, and their tables.

They share the sizes of "cifar10_tiny": 32 x 32 images, patches of 4, width 64, four
blocks of four heads, MLPs of 128, ten classes.
"""

import torch
from torch import nn

from vit_jax.convert import layers

WIDTH, DEPTH, HEADS, HIDDEN, CLASSES, PATCH, TOKENS = 64, 4, 4, 128, 10, 4, 65


class SplitAttention(nn.Module):
    """Self-attention with one layer for query, key and value; scale is width^-p."""

    def __init__(self, bias, scale):
        super().__init__()
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=bias)
        self.to_out = nn.Linear(WIDTH, WIDTH)
        self.scale = scale

    def forward(self, x):
        batch, tokens, _ = x.shape
        query, key, value = (
            part.view(batch, tokens, HEADS, -1).transpose(1, 2)
            for part in self.to_qkv(x).chunk(3, dim=-1)
        )
        weights = (query @ key.transpose(2, 3) * self.scale).softmax(dim=-1)
        return self.to_out((weights @ value).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A block with a norm before each branch."""

    def __init__(self, bias, scale):
        super().__init__()
        self.ln_a, self.ln_b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = SplitAttention(bias, scale)
        self.widen, self.narrow = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        x = x + self.attend(self.ln_a(x))
        hidden = nn.functional.gelu(self.widen(self.ln_b(x)))
        return x + self.narrow(hidden)


class Article(nn.Module):
    """What the three have in common: token, positions, norm and head."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.places = nn.Parameter(torch.zeros(1, TOKENS, WIDTH))
        self.last_norm = nn.LayerNorm(WIDTH)
        self.classify = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.embed(images)
        token = self.token.expand(len(x), -1, -1)
        x = self.encode(torch.cat([token, x], dim=1) + self.places)
        return self.classify(self.last_norm(x)[:, 0])


class LinearPatches(Article):
    """(a) Patches flattened by row, column and channel; a linear layer on them."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(PATCH * PATCH * 3, WIDTH)
        scale = (WIDTH // HEADS) ** -0.5
        self.blocks = nn.Sequential(*(Block(True, scale) for _ in range(DEPTH)))

    def embed(self, images):
        batch, channels, height, width = images.shape
        rows, columns = height // PATCH, width // PATCH
        x = images.view(batch, channels, rows, PATCH, columns, PATCH)
        x = x.permute(0, 2, 4, 3, 5, 1).reshape(batch, rows * columns, -1)
        return self.project(x)

    def encode(self, x):
        return self.blocks(x)


class TorchEncoder(Article):
    """(b) A convolution, and PyTorch's own encoder."""

    def __init__(self):
        super().__init__()
        self.project = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        layer = nn.TransformerEncoderLayer(
            WIDTH,
            HEADS,
            HIDDEN,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.stack = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)

    def embed(self, images):
        return self.project(images).flatten(2).transpose(1, 2)

    def encode(self, x):
        return self.stack(x)


class WrongScale(TorchEncoder):
    """(c) No qkv bias, and the softmax scaled by the whole width: a slip."""

    def __init__(self):
        super().__init__()
        del self.stack
        self.blocks = nn.Sequential(*(Block(False, WIDTH**-0.5) for _ in range(DEPTH)))

    def encode(self, x):
        return self.blocks(x)


def _shared(stem):
    return [
        *stem,
        layers.same("prefix/class_token", "token"),
        layers.same("position/table", "places"),
        *layers.norm("encoder/norm", "last_norm"),
        *layers.dense("head", "classify"),
    ]


def _hand_written(bias, query_scale=1.0):
    rules = []
    for layer in range(DEPTH):
        ours, theirs = f"encoder/block_{layer}", f"blocks.{layer}"
        rules += layers.norm(f"{ours}/attention_norm", f"{theirs}.ln_a")
        rules += layers.fused_heads(
            f"{ours}/attention",
            f"{theirs}.attend.to_qkv.weight",
            HEADS,
            f"{theirs}.attend.to_qkv.bias" if bias else None,
            query_scale=query_scale,
        )
        rules += layers.out_projection(
            f"{ours}/attention/out", f"{theirs}.attend.to_out", HEADS
        )
        rules += layers.norm(f"{ours}/mlp_norm", f"{theirs}.ln_b")
        rules += layers.dense(f"{ours}/mlp/hidden", f"{theirs}.widen")
        rules += layers.dense(f"{ours}/mlp/out", f"{theirs}.narrow")
    return rules


def _torch_encoder():
    rules = []
    for layer in range(DEPTH):
        ours, theirs = f"encoder/block_{layer}", f"stack.layers.{layer}"
        rules += layers.norm(f"{ours}/attention_norm", f"{theirs}.norm1")
        rules += layers.fused_heads(
            f"{ours}/attention",
            f"{theirs}.self_attn.in_proj_weight",
            HEADS,
            f"{theirs}.self_attn.in_proj_bias",
        )
        rules += layers.out_projection(
            f"{ours}/attention/out", f"{theirs}.self_attn.out_proj", HEADS
        )
        rules += layers.norm(f"{ours}/mlp_norm", f"{theirs}.norm2")
        rules += layers.dense(f"{ours}/mlp/hidden", f"{theirs}.linear1")
        rules += layers.dense(f"{ours}/mlp/out", f"{theirs}.linear2")
    return rules


# Model, table, and fields in which it is not "cifar10_tiny". Our softmax scale is the
# head's: the slip's is a query smaller by the root of the number of heads.
ARTICLES = {
    "linear patches": (
        LinearPatches,
        _shared(layers.flat_patches("stem/projection", "project", PATCH))
        + _hand_written(True),
        {},
    ),
    "torch encoder": (
        TorchEncoder,
        _shared(layers.conv("stem/projection", "project")) + _torch_encoder(),
        {},
    ),
    "wrong scale": (
        WrongScale,
        _shared(layers.conv("stem/projection", "project"))
        + _hand_written(False, query_scale=HEADS**-0.5),
        {"qkv_bias": False, "dropout": 0.0, "attention_dropout": 0.0},
    ),
}
