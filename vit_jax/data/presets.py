"""Named sets of augmentation: what published recipes used, by augment key."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

# What a key is where neither a config nor a preset says it.
CUSTOM: Mapping[str, Any] = MappingProxyType(
    {
        "crop_area": (0.05, 1.0),
        "repeats": 1,
        "randaugment_layers": 0,
        "randaugment_magnitude": 9.0,
        "randaugment_std": 0.0,
        "randaugment_probability": 1.0,
        "mixup": 0.0,
        "cutmix": 0.0,
        "cutmix_probability": 0.5,
        "erasing": 0.0,
        "label_smoothing": 0.0,
    }
)

# Which keys every preset decides, with the value that turns each off.
_OFF = {
    key: value for key, value in CUSTOM.items() if key not in ("crop_area", "repeats")
} | {"randaugment_magnitude": 0.0}


def _augreg(layers: int, magnitude: float, mixup: float) -> dict[str, float]:
    # Their magnitudes reach full strength at 10, ours at 30.
    strengths = {"randaugment_layers": layers, "randaugment_magnitude": 3 * magnitude}
    return _OFF | strengths | {"mixup": mixup}


# AugReg: Steiner et al. 2021, arXiv 2106.10270, section 3.3, its table of levels.
# DeiT: Touvron et al. 2021, arXiv 2012.12877, table 9, with the crop's area and three
# repeats of its code: rand-m9-mstd0.5-inc1 of timm, whose magnitudes also reach full
# strength at 10 and whose operations are applied every other time. timm's operations
# are not quite ours: it has Invert and SolarizeAdd and no Identity, draws the filter of
# each move from bilinear and bicubic, and fills with the mean colour where ours is
# black; strengths stop at 10, which are our 30.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "none": _OFF,
        "light1": _augreg(2, 0, 0.0),
        "light2": _augreg(2, 10, 0.2),
        "medium1": _augreg(2, 15, 0.2),
        "medium2": _augreg(2, 15, 0.5),
        "strong1": _augreg(2, 20, 0.5),
        "strong2": _augreg(2, 20, 0.8),
        "deit": _OFF
        | {
            "randaugment_layers": 2,
            "randaugment_magnitude": 27.0,
            "randaugment_std": 1.5,
            "randaugment_probability": 0.5,
            "mixup": 0.8,
            "cutmix": 1.0,
            "erasing": 0.25,
            "label_smoothing": 0.1,
            "crop_area": (0.08, 1.0),
            "repeats": 3,
        },
    }
)
