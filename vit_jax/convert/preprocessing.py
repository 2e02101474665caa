"""How others say what images a model takes, and how we do."""

from collections.abc import Mapping
from typing import Any

from vit_jax.convert.layout import describe
from vit_jax.convert.pictures import in_words
from vit_jax.convert.timm_models import IMAGENET
from vit_jax.convert.timm_names import architecture_of, arguments_of
from vit_jax.models.spec import VitSpec

# Pillow's numbers, which Hugging Face's `resample` has.
_RESAMPLE = {2: "bilinear", 3: "bicubic"}
_CROPPED = {
    "do_center_crop": True,
    "size": {"shortest_edge": 256},
    "crop_size": 224,
    "resample": 3,
    "image_mean": IMAGENET[0],
    "image_std": IMAGENET[1],
}
# What preprocessor_config.json has in the published folders; ViT's is the default.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "deit": _CROPPED,
    "dinov2": _CROPPED,
    "dinov2_with_registers": _CROPPED,
}


def from_timm(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(preprocessing, class names) of a timm folder's config.json."""
    said = config.get("pretrained_cfg") or {}
    channels, rows, columns = said.get("input_size", (3, 224, 224))
    arguments = config.get("model_args") or {}
    if (size := arguments.get("img_size")) is not None:
        rows, columns = (size, size) if isinstance(size, int) else size
    bicubic = said.get("interpolation", "bicubic") == "bicubic"
    preprocessing = describe(
        (rows, columns),
        channels=channels,
        mean=said.get("mean", IMAGENET[0]),
        std=said.get("std", IMAGENET[1]),
        resize="stretch" if said.get("crop_mode") == "squash" else "center",
        crop_fraction=said.get("crop_pct", 0.875),
        interpolation="bicubic" if bicubic else "bilinear",
    )
    names = config.get("label_names") or said.get("label_names") or ()
    if isinstance(names, Mapping):
        names = [names[key] for key in sorted(names, key=int)]
    return preprocessing, tuple(names)


def to_timm(
    spec: VitSpec, preprocessing: Mapping[str, Any], class_names: tuple[str, ...]
) -> dict[str, Any]:
    """The config.json with which `timm.create_model("local-dir:…")` makes the model."""
    rows, columns = preprocessing["image_size"]
    channels = preprocessing["channels"]
    squash = preprocessing["resize"] == "stretch"
    arguments = arguments_of(spec, (rows, columns))
    if channels != 3:
        arguments["in_chans"] = channels
    config = {
        "architecture": architecture_of(spec),
        "num_classes": spec.num_classes,
        "num_features": spec.width,
        "model_args": arguments,
        "pretrained_cfg": {
            "input_size": [channels, rows, columns],
            "interpolation": preprocessing["interpolation"],
            "crop_pct": 1.0 if squash else preprocessing["crop_fraction"],
            "crop_mode": "squash" if squash else "center",
            "mean": preprocessing["mean"],
            "std": preprocessing["std"],
            "num_classes": spec.num_classes,
            "fixed_input_size": True,
            "first_conv": "patch_embed.backbone.stem.conv"
            if spec.stem_units
            else "patch_embed.proj",
            "classifier": "head",
        },
    }
    if spec.pool == "distilled":
        config["pretrained_cfg"]["classifier"] = ["head", "head_dist"]
    return config | ({"label_names": list(class_names)} if class_names else {})


def from_huggingface(
    config: Mapping[str, Any], processor: Mapping[str, Any] | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(preprocessing, notes on it) of a folder's two files.

    Args:
      config: of config.json.
      processor: of preprocessor_config.json; None where there is none, and then it is
        as the published folders of the family have it.

    Raises:
      ValueError: an entry is no size, or no statistics.
    """
    size = config.get("image_size", 224)
    shape = _sides(size, "config.json", "image_size")
    notes: list[str] = []
    if processor is None:
        processor = _PUBLISHED.get(str(config.get("model_type")), {})
        notes.append("the folder has no preprocessor_config.json")
    fraction, crops = _crop(processor, shape, notes)
    kind = processor.get("resample", 2)
    if kind not in _RESAMPLE:
        notes.append(f"resample={kind!r} is bicubic here")
    if not processor.get("do_resize", True):
        notes.append("do_resize=false is left out: images are resized here")
    mean, std = _statistics(processor)
    preprocessing = describe(
        shape,
        channels=config.get("num_channels", 3),
        mean=mean,
        std=std,
        resize="center" if crops else "stretch",
        crop_fraction=fraction,
        interpolation=_RESAMPLE.get(kind, "bicubic"),
    )
    if notes:
        notes.append(f"images are made with {in_words(preprocessing)}")
    return preprocessing, tuple(notes)


def _crop(
    processor: Mapping[str, Any], shape: tuple[int, int], notes: list[str]
) -> tuple[float, bool]:
    """(share of the resized image that the crop leaves, whether there is a crop)."""
    resized = processor.get("size")
    both = None
    if isinstance(resized, Mapping) and "shortest_edge" in resized:
        shorter = resized["shortest_edge"]
    elif resized is None:
        shorter = min(shape)
    else:
        both = _sides(resized, "preprocessor_config.json", "size")
        shorter = min(both)
    if not processor.get("do_center_crop", False):
        if both is not None and both != shape:
            notes.append(f"size={both} counts nothing: the position table is {shape}")
        if both is None and resized is not None:
            notes.append("an image of other sides is cut to the middle here")
            return 1.0, True
        return 1.0, False
    cropped = processor.get("crop_size", shape)
    cropped = _sides(cropped, "preprocessor_config.json", "crop_size")
    if cropped != shape:
        notes.append(
            f"crop_size={cropped} is made {shape}, the position table's, with the same "
            "share of the image"
        )
    if isinstance(resized, Mapping) and both is not None:
        notes.append("before the crop, sides keep their ratio here")
    if min(cropped) > shorter:
        notes.append(f"a crop of {cropped} out of {shorter} has no black margin here")
    return min(1.0, min(cropped) / shorter), True


def _statistics(processor: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Mean and deviation on a scale from 0 to 1, whatever scale the images have."""
    mean, std = [0.0], [1.0]
    if processor.get("do_normalize", True):
        mean, std = (
            [value] if isinstance(value, int | float) else list(value)
            for value in (
                processor.get("image_mean", 0.5),
                processor.get("image_std", 0.5),
            )
        )
    factor = processor.get("rescale_factor", 1 / 255)
    scale = 255 * factor if processor.get("do_rescale", True) else 255
    if abs(scale - 1) < 1e-9:
        return mean, std
    return [value / scale for value in mean], [value / scale for value in std]


def _sides(value: Any, file: str, name: str) -> tuple[int, int]:
    if isinstance(value, Mapping):
        value = (value.get("height"), value.get("width"))
    sides = (value, value) if isinstance(value, int) else tuple(value)
    if len(sides) != 2 or not all(isinstance(s, int) and s > 0 for s in sides):
        raise ValueError(
            f"{file} has {name}={value!r}; it must be pixels, or height and width."
        )
    return sides


def to_huggingface(preprocessing: Mapping[str, Any]) -> dict[str, Any]:
    """The preprocessor_config.json that makes the same input of an image."""
    rows, columns = preprocessing["image_size"]
    numbers = {kind: number for number, kind in _RESAMPLE.items()}
    said: dict[str, Any] = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": preprocessing["mean"],
        "image_std": preprocessing["std"],
        "resample": numbers[preprocessing["interpolation"]],
        "rescale_factor": 1 / 255,
    }
    if preprocessing["resize"] == "stretch":
        return said | {
            "image_processor_type": "ViTImageProcessor",
            "size": {"height": rows, "width": columns},
        }
    shorter = round(min(rows, columns) / preprocessing["crop_fraction"])
    return said | {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": shorter},
        "do_center_crop": True,
        "crop_size": {"height": rows, "width": columns},
    }
