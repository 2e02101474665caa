"""Which of timm's models convert both ways, as a table for docs/weights.md.

    python -m tests.convert.coverage

Each is built with every tensor drawn anew and its depth cut to two, converted, run on
images of 3 x 2 patches, and written back; names that differ in image size alone are
compared once.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np
import timm
import torch
from timm.models import _registry

from tests.convert.ours import assert_same_arrays, logits_of
from tests.convert.peers import arrays_of, drawn, images_of, outputs
from vit_jax.convert.source import decode
from vit_jax.convert.target import encode
from vit_jax.convert.timm_names import from_name

DOCS = Path(__file__).parent.parent.parent / "docs" / "weights.md"
BEGIN, END = "<!-- coverage -->", "<!-- end of coverage -->"
HYBRIDS = (
    "vit_tiny_r_s16_p8_224",
    "vit_tiny_r_s16_p8_384",
    "vit_small_r26_s32_224",
    "vit_small_r26_s32_384",
    "vit_base_r26_s32_224",
    "vit_base_r50_s16_224",
    "vit_base_r50_s16_384",
    "vit_large_r50_s32_224",
    "vit_large_r50_s32_384",
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Largest difference of logits, their range; or why it is refused."""

    name: str
    difference: float = 0.0
    spread: float = 0.0
    refused: str = ""


def names_of(module):
    """timm's names in one of its modules; old names for the same models left out."""
    old = _registry._deprecated_models
    return sorted(n for n in _registry._module_to_models[module] if n not in old)


FAMILIES = {
    "vision_transformer": names_of("vision_transformer"),
    "deit": names_of("deit"),
    "vision_transformer_hybrid (ResNetV2)": list(HYBRIDS),
}


def shape_of(name):
    """(rows, columns) of small images that are no squares and fit the model."""
    if name in HYBRIDS:
        stride = 16 if "r50_s16" in name else 32
        return (3 * stride, 2 * stride)
    patch = int(found[1]) if (found := re.search(r"patch(\d+)", name)) else 16
    return (3 * patch, 2 * patch)


def compare(name, **options):
    """The outcome for one name; asserts that the way back is exact."""
    shape = shape_of(name)
    options = {"depth": 2, "num_classes": 10, "img_size": shape} | options
    peer = drawn(lambda: timm.create_model(name, **options))
    arrays = arrays_of(peer)
    try:
        weights = decode(arrays, variant=name, image_size=shape)
    except ValueError as error:
        return Outcome(name, refused=str(error).splitlines()[0])
    images = images_of(shape)
    theirs = outputs(peer, images)
    difference = np.abs(logits_of(weights, images) - theirs).max()
    back = encode(weights, "timm")
    assert_same_arrays(back.arrays, arrays)
    return Outcome(name, float(difference), float(np.ptp(theirs)))


def table(outcomes):
    """The table's lines: a row a family, then the refused names with reasons."""
    lines = [
        "| timm module | names | converted | largest difference of logits |",
        "|---|---|---|---|",
    ]
    for family, names in FAMILIES.items():
        rows = [outcomes[name] for name in names]
        good = [row for row in rows if not row.refused]
        worst = max(row.difference for row in good)
        lines.append(f"| {family} | {len(names)} | {len(good)} | {worst:.1e} |")
    reasons = {}
    for row in outcomes.values():
        if row.refused:
            reasons.setdefault(row.refused, []).append(f"`{row.name}`")
    lines += ["", "Refused by name:", ""]
    lines += [f"- {', '.join(names)}: {why}" for why, names in reasons.items()]
    return "\n".join(lines)


def signature(name):
    """All that the outcome depends on; many names differ in image size alone."""
    with torch.device("meta"):
        peer = timm.create_model(name, depth=2, num_classes=10, img_size=shape_of(name))
    attention = getattr(peer.blocks[0], "attn", None)
    heads = getattr(attention, "num_heads", 0)
    shapes = [(name, *t.shape) for name, t in peer.state_dict().items()]
    said = sorted(from_name(name).items())
    return repr((peer, heads, peer.global_pool, shapes, said, shape_of(name)))


def main():
    """Compares all and writes the table into docs/weights.md."""
    outcomes, known = {}, {}
    for name in (name for names in FAMILIES.values() for name in names):
        key = signature(name)
        if key not in known:
            known[key] = compare(name)
        outcomes[name] = dataclasses.replace(known[key], name=name)
        print(outcomes[name], flush=True)
    text = DOCS.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    DOCS.write_text(f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}")


if __name__ == "__main__":
    main()
