"""Learning rates that shrink from the head down to the stem."""

import re
from typing import Any

from vit_jax import trees

_BLOCK = re.compile(r"encoder/block_(\d+)/.*")
# What stands before the blocks: pixels to tokens, tokens put in front, positions.
_BEFORE = re.compile(r"(stem|prefix|position|encoder/first_norm)(/.*)?")


def layer_multipliers(params: trees.Tree, decay: float) -> dict[str, Any]:
    """Tree of factors: decay ** (number of the last layer - number of the layer).

    Stem, class and register tokens and positions are layer 0, block i is layer i + 1,
    and all after the blocks (norm, pool, head) is the last one, whose factor is 1.

    Source: Clark et al. 2020, arXiv 2003.10555, appendix; the numbering is that of Bao
    et al. 2022, arXiv 2106.08254, which MAE has too, and timm but for the norm before
    a class token's head, which it puts with the last block.

    Raises:
      ValueError: the parameters have no encoder blocks.
    """
    blocks = [
        int(match[1]) for match in map(_BLOCK.fullmatch, trees.flatten(params)) if match
    ]
    if not blocks:
        raise ValueError(
            f"optimizer.layer_decay={decay} needs a model with encoder blocks; set it "
            "to 0."
        )
    last = max(blocks) + 2

    def factor(name: str, _: Any) -> float:
        if match := _BLOCK.fullmatch(name):
            return decay ** (last - int(match[1]) - 1)
        return decay**last if _BEFORE.fullmatch(name) else 1.0

    return trees.map_named(factor, params)
