"""Every model by name: what sets it apart from the paper's ViT."""

import dataclasses
import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from vit_jax.models.spec import ResNetSpec, Spec, VitSpec

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


def _vit(size: str, patch_size: int, **fields: Any) -> VitSpec:
    width, depth, mlp_dim, num_heads = _SIZES[size]
    return VitSpec(width, depth, num_heads, mlp_dim, patch_size, **fields)


def _hybrid(
    size: str, patch_size: int, units: tuple[int, ...], dropout: float
) -> VitSpec:
    return _vit(size, patch_size, stem="resnet", stem_units=units, dropout=dropout)


_PLAIN = {
    f"{size}/{patch}": _vit(
        size, patch, dropout=_WITH_DROPOUT.get(f"{size}/{patch}", 0.0)
    )
    for size in _SIZES
    for patch in _PATCH_SIZES
}

# Dosovitskiy et al. 2021, appendix D.2 (R50 at B/16 moves its last stage's units to the
# third), and Steiner et al. 2021, arXiv 2106.10270, section 3.3; patches are of the
# feature map. Dropout as in the original's model table.
_HYBRIDS = {
    "R+Ti/16": _hybrid("Ti", 8, (), 0.0),
    "R26+S/32": _hybrid("S", 1, (2, 2, 2, 2), 0.0),
    "R26+B/32": _hybrid("B", 1, (2, 2, 2, 2), 0.0),
    "R50+B/16": _hybrid("B", 1, (3, 4, 9), 0.1),
    "R50+L/32": _hybrid("L", 1, (3, 4, 6, 3), 0.1),
}

# Kolesnikov et al. 2020, arXiv 1912.11370, section 3.
_RESNETS = {
    "R50x1": ResNetSpec((3, 4, 6, 3)),
    "R101x1": ResNetSpec((3, 4, 23, 3)),
    "R152x2": ResNetSpec((3, 8, 36, 3), stem_width=128),
}

# The tiny ViT of the articles: 142,026 parameters, 5,000 CIFAR-10 images of 32 x 32.
_CIFAR10_TINY = VitSpec(
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
    image_size=32,
)

# The demo's: 136,138 parameters, scikit-learn's grey digits of 8 x 8.
_DIGITS_TINY = VitSpec(
    width=64,
    depth=4,
    num_heads=4,
    mlp_dim=128,
    patch_size=2,
    num_classes=10,
    image_size=8,
)

VARIANTS: Mapping[str, Spec] = MappingProxyType(
    {
        **_PLAIN,
        **_HYBRIDS,
        **_RESNETS,
        "cifar10_tiny": _CIFAR10_TINY,
        "digits_tiny": _DIGITS_TINY,
    }
)


def list_models(pattern: str = "*") -> list[str]:
    """Names that match the glob pattern (case counts), in the table's order."""
    return [name for name in VARIANTS if fnmatch.fnmatchcase(name, pattern)]


def resolve(name: str, overrides: Mapping[str, Any]) -> Spec:
    """The spec of `name` with overrides, where None means the variant's own value.

    A list, as JSON has it, counts as a tuple.

    Raises:
      ValueError: the name or an override's name doesn't exist; says which one is near.
    """
    if name not in VARIANTS:
        raise ValueError(f"model {name!r} does not exist{_near(name, VARIANTS)}")
    fields = [field.name for field in dataclasses.fields(VARIANTS[name])]
    given = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in overrides.items()
        if value is not None
    }
    for override in given:
        if override not in fields:
            raise ValueError(
                f"model {name!r} has no keyword {override!r}{_near(override, fields)}"
            )
    return dataclasses.replace(VARIANTS[name], **given)


def in_words(name: str, overrides: Mapping[str, Any]) -> str:
    """A model for people: its name, and what `overrides` make of it.

    Raises:
      ValueError: see `resolve`.
    """
    before, after = vars(resolve(name, {})), vars(resolve(name, overrides))
    changed = [f"{key} {after[key]}" for key in before if before[key] != after[key]]
    return f"{name} with {', '.join(changed)}" if changed else name


def different_fields(spec: Spec, other: Spec) -> list[str]:
    """Names of the fields in which two specs of one family differ, in their order."""
    return [name for name, value in vars(spec).items() if value != getattr(other, name)]


def nearest(spec: Spec, *, ignored: Iterable[str] = ()) -> str:
    """The name whose own spec differs from `spec` in the fewest fields.

    The first in the table's order among several; names in `ignored` don't count.
    """
    ignored = set(ignored)

    def distance(name: str) -> int:
        return len(set(different_fields(spec, VARIANTS[name])) - ignored)

    family = [name for name, row in VARIANTS.items() if type(row) is type(spec)]
    return min(family, key=distance)


def as_overrides(spec: Spec) -> tuple[str, dict[str, Any]]:
    """(name, overrides) for which `resolve` gives `spec`; the fewest overrides."""
    name = nearest(spec)
    differing = different_fields(spec, VARIANTS[name])
    return name, {field: getattr(spec, field) for field in differing}


def _near(word: str, words: Iterable[str]) -> str:
    words = list(words)
    lowered = {other.lower(): other for other in words}
    found = difflib.get_close_matches(word.lower(), list(lowered), 1, cutoff=0.4)
    hint = f"; did you mean {lowered[found[0]]!r}?" if found else "."
    return f"{hint} There are: {', '.join(words)}."
