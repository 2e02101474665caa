"""Every model by name: what sets it apart from the paper's ViT."""

import dataclasses
import difflib
import fnmatch
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


@dataclasses.dataclass(frozen=True)
class Spec:
    """A model in flat words. The defaults are the paper's ViT; sizes have none."""

    # Size of the stack.
    width: int
    depth: int
    num_heads: int
    mlp_dim: int
    patch_size: int
    # Embedding.
    position: str = "learned_1d"  # or "none"
    token_init: str = "paper"  # zeros and normal; "truncated": both truncated normal
    # Blocks.
    gelu: str = "tanh"  # or "exact"
    norm_epsilon: float = 1e-6
    dropout: float = 0.0
    attention_dropout: float = 0.0
    stochastic_depth: float = 0.0
    # Output.
    pool: str = "cls"  # or "gap"
    representation_size: int = 0  # 0: no tanh layer
    num_classes: int = 1000  # 0: features
    head_init_std: float = 0.0  # 0: zeros
    head_bias_init: float = 0.0


# Width, depth, MLP width and heads. Sources: Ti and S, Touvron et al. 2021, arXiv
# 2012.12877, table 1; B, L and H, Dosovitskiy et al. 2021, arXiv 2010.11929, table 1; g
# and G, Zhai et al. 2022, arXiv 2106.04560, table 2.
_SIZES = {
    "Ti": (192, 12, 768, 3),
    "S": (384, 12, 1536, 6),
    "B": (768, 12, 3072, 12),
    "L": (1024, 24, 4096, 16),
    "H": (1280, 32, 5120, 16),
    "g": (1408, 40, 6144, 16),
    "G": (1664, 48, 8192, 16),
}
_PATCH_SIZES = (32, 16, 14, 8)

# The original's model table has dropout at these two alone (configs/models.py).
_WITH_DROPOUT = {"L/16": 0.1, "H/14": 0.1}


def _plain() -> dict[str, Spec]:
    specs = {}
    for size, (width, depth, mlp_dim, num_heads) in _SIZES.items():
        for patch_size in _PATCH_SIZES:
            name = f"{size}/{patch_size}"
            specs[name] = Spec(
                width=width,
                depth=depth,
                num_heads=num_heads,
                mlp_dim=mlp_dim,
                patch_size=patch_size,
                dropout=_WITH_DROPOUT.get(name, 0.0),
            )
    return specs


# The tiny ViT of the articles: 142,026 parameters, 5,000 CIFAR-10 images of 32 x 32.
_CIFAR10_TINY = Spec(
    width=64,
    depth=4,
    num_heads=4,
    mlp_dim=128,
    patch_size=4,
    token_init="truncated",
    gelu="exact",
    norm_epsilon=1e-5,
    dropout=0.1,
    attention_dropout=0.1,
    num_classes=10,
)

VARIANTS: Mapping[str, Spec] = MappingProxyType(
    {**_plain(), "cifar10_tiny": _CIFAR10_TINY}
)


def list_models(pattern: str = "*") -> list[str]:
    """Names that match the glob pattern (case counts), in the table's order."""
    return [name for name in VARIANTS if fnmatch.fnmatchcase(name, pattern)]


def resolve(name: str, overrides: Mapping[str, Any]) -> Spec:
    """The spec of `name` with overrides, where None means the variant's own value.

    Raises:
      ValueError: the name or an override's name doesn't exist; says which one is near.
    """
    if name not in VARIANTS:
        raise ValueError(f"model {name!r} does not exist{_near(name, VARIANTS)}")
    fields = [field.name for field in dataclasses.fields(Spec)]
    for override in overrides:
        if override not in fields:
            raise ValueError(
                f"model keyword {override!r} does not exist{_near(override, fields)}"
            )
    given = {key: value for key, value in overrides.items() if value is not None}
    return dataclasses.replace(VARIANTS[name], **given)


def _near(word: str, words: Any) -> str:
    lowered = {other.lower(): other for other in words}
    found = difflib.get_close_matches(word.lower(), list(lowered), 1, cutoff=0.4)
    hint = f"; did you mean {lowered[found[0]]!r}?" if found else "."
    return f"{hint} There are: {', '.join(words)}."
