"""What timm's names say of size and of images, for files that say neither."""

import re
from typing import Any

from vit_jax.models.spec import VitSpec

# Word of a name -> widths of the models that have it.
_WIDTHS = {
    "tiny": (192,),
    "wee": (256,),
    "pwee": (256,),
    "dwee": (256,),
    "dpwee": (256,),
    "xsmall": (256,),
    "little": (320,),
    "dlittle": (320,),
    "small": (384,),
    "medium": (512,),
    "mediumd": (512,),
    "betwixt": (640,),
    "base": (768, 896),
    "so150m": (896,),
    "so150m2": (832,),
    "intern300m": (1024,),
    "large": (1024,),
    "so400m": (1152,),
    "huge": (1280, 1536),
    "giant": (1408, 1536),
    "giantopt": (1536,),
    "gigantic": (1664,),
    "1b": (2048,),
    "3b": (3072,),
}
_WORDS = "|".join(_WIDTHS)
_NAME = re.compile(
    rf"(?:vit|deit3?|flexivit|beit3|eva|aimv2)_({_WORDS})(?:_\w+)?(?:\.\w+)?"
)
_TEST = {"test_vit": 64, "test_vit2": 64, "test_vit3": 96, "test_vit4": 96}
_RESNET = re.compile(r"resnetv2_\d+x\d_bit(?:\.\w+)?")

HALF = ((0.5,), (0.5,))
UNIT = ((0.0,), (1.0,))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
)
# The first that matches anywhere in the name counts.
_STATISTICS = (
    (r"large_patch14_clip_\d+\.laion2b", HALF),
    (r"clip|radio|aimv2|eva_|bamboo", CLIP),
    (r"deit|beit3|dino|\.mae|ijepa|intern300m|resnet\d+d", IMAGENET),
    (r"tipsv2|_mci_|miil", UNIT),
    (r"", HALF),
)
_CROPS = (
    (r"miil", 0.875),
    (r"clip_\w*224\.(openai|laion2b_ft_in12k)$|tinyclip|patch32_clip_224", 0.9),
    (r"flexivit|test_vit|plus|(reg\d|medium\w*|betwixt)\w*_gap_2|gap_384\.sw", 0.95),
    (r"so150m2|_(336|378|384|448|512|896)(\.|$)|dinov2|tipsv2", 1.0),
    (r"clip|radio|aimv2|eva_|beit3|bamboo", 1.0),
    (r"deit3_\w+\.fb_in22k", 1.0),
    (r"", 0.9),
)


def is_known(name: str) -> bool:
    """Whether a name is built as those of timm's Vision Transformers are."""
    base = name.partition(".")[0]
    return base in _TEST or bool(_NAME.fullmatch(name) or _RESNET.fullmatch(name))


def check_size(name: str, spec: VitSpec, source: str) -> None:
    """Nothing, where a model has the width and the patches that timm's name says.

    Raises:
      ValueError: lists what differs.
    """
    differing = []
    base, found = name.partition(".")[0], _NAME.fullmatch(name)
    widths = _WIDTHS[found[1]] if found else (_TEST.get(base, spec.width),)
    # Hybrids of other backbones are as wide as their names don't say.
    if spec.width not in widths and "resnet" not in base:
        wanted = " or ".join(map(str, widths))
        differing.append(f"width={spec.width}, must be {wanted}")
    patch = re.search(r"_patch(\d+)", base)
    if patch and spec.stem == "patch" and spec.patch_size != int(patch[1]):
        differing.append(f"patch_size={spec.patch_size}, must be {patch[1]}")
    if differing:
        raise ValueError(f"{source} is no {name}; it has:\n  " + "\n  ".join(differing))


def pictures_of(name: str) -> dict[str, Any]:
    """Keywords of `describe`: how timm's models of that name see images."""
    mean, std = next(
        found for pattern, found in _STATISTICS if re.search(pattern, name)
    )
    crop = next(found for pattern, found in _CROPS if re.search(pattern, name))
    return {
        "mean": mean,
        "std": std,
        "resize": "center",
        "crop_fraction": crop,
        "interpolation": "bilinear" if "miil" in name else "bicubic",
    }
