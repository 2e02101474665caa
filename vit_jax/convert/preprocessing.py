"""How others say what images a model takes, and how we do."""

from collections.abc import Mapping
from typing import Any

from vit_jax.convert.layout import describe
from vit_jax.convert.timm_names import architecture_of, arguments_of
from vit_jax.models.variants import VitSpec

# Pillow's numbers, which Hugging Face's `resample` has.
_RESAMPLE = {2: "bilinear", 3: "bicubic"}
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


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
        mean=said.get("mean", _IMAGENET["mean"]),
        std=said.get("std", _IMAGENET["std"]),
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
    config: Mapping[str, Any], processor: Mapping[str, Any]
) -> dict[str, Any]:
    """Preprocessing of a folder's config.json and preprocessor_config.json."""
    size = config.get("image_size", 224)
    shape = (size, size) if isinstance(size, int) else tuple(size)
    crop = processor.get("do_center_crop", False)
    resized = processor.get("size", {})
    shorter = resized.get("shortest_edge") if isinstance(resized, Mapping) else resized
    fraction = min(shape) / shorter if crop and shorter else 1.0
    return describe(
        shape,
        channels=config.get("num_channels", 3),
        mean=processor.get("image_mean", (0.5,)),
        std=processor.get("image_std", (0.5,)),
        resize="center" if crop else "stretch",
        crop_fraction=fraction,
        interpolation=_RESAMPLE.get(processor.get("resample", 2), "bicubic"),
    )


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
