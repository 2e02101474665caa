"""Weights into another layout's files, read back and compared before they count."""

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from etils import epath

from vit_jax.convert import (
    huggingface,
    huggingface_config,
    official,
    timm,
    timm_resnet,
    torchvision,
    unsaid,
    workdirs,
    writing,
)
from vit_jax.convert.layout import Weights
from vit_jax.convert.preprocessing import to_huggingface, to_timm
from vit_jax.convert.replace import WRITTEN, check_place, replaced
from vit_jax.convert.rules import Rule, folds, to_theirs
from vit_jax.models.spec import ResNetSpec, VitSpec

LAYOUTS = ("timm", "huggingface", "torchvision", "npz", "orbax")
_TORCH = (".pth", ".pt", ".bin")
_FILES = (*_TORCH, ".safetensors", ".npz")


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A model in another layout: arrays, files beside them, and what to know."""

    arrays: dict[str, np.ndarray]
    files: dict[str, dict[str, Any]]
    notes: tuple[str, ...]


def write(
    weights: Weights, dest: str | os.PathLike, layout: str, *, overwrite: bool = False
) -> tuple[str, ...]:
    """Writes the weights at `dest`; gives notes on what was folded or can't be said.

    A name that ends in .pth, .pt or .bin becomes a PyTorch file with a state dict, one
    in .safetensors the same without PyTorch, one in .npz NumPy's; any other becomes a
    folder. It is written under another name, read back, compared array by array, and
    then renamed, so that `dest` is whole or not there.

    Args:
      weights: what to write.
      dest: where.
      layout: one of `LAYOUTS`.
      overwrite: whether a file, or a folder that this function wrote, may be replaced.

    Raises:
      FileExistsError: `dest` is there and `overwrite` is False.
      ValueError: the layout can't hold the model, or has no such kind of file; or
        `dest` holds what the weights were read from, or a folder that is not ours.
      OSError: what was written reads back otherwise.
    """
    place = epath.Path(dest)
    if "://" not in str(dest):
        place = epath.Path(os.path.abspath(os.path.expanduser(dest)))
    _check(place, layout)
    check_place(place, weights.place, overwrite)
    if layout == "orbax":
        with replaced(place) as fresh:
            workdirs.write_model(fresh, weights)
            _compare_ours(workdirs.read_model(fresh), weights)
        return ()
    encoded = encode(weights, layout)
    is_file = place.suffix in _FILES
    if not is_file and not encoded.files:
        raise ValueError(
            f"{layout} has no folder for this model; give DEST.pth or DEST.safetensors."
        )
    with replaced(place) as fresh:
        file = fresh
        if not is_file:
            fresh.mkdir(parents=True)
            for name, content in encoded.files.items():
                (fresh / name).write_text(json.dumps(content, indent=2) + "\n")
            file = fresh / "model.safetensors"
        kind = "torch" if place.suffix in _TORCH else place.suffix[1:] or "safetensors"
        kind = kind if is_file else "safetensors"
        writing.write_arrays(
            file, kind, encoded.arrays, _metadata(weights, layout, is_file)
        )
        writing.compare(file, encoded.arrays)
    notes = encoded.notes
    if is_file and place.suffix != ".safetensors":
        bare = encoded.arrays
        notes += unsaid.of_file(weights, layout, bare)
    return notes


def encode(weights: Weights, layout: str) -> Encoded:
    """The arrays and files of a layout; nothing is written.

    Raises:
      ValueError: the layout can't hold the model; lists all that stands in the way.
    """
    spec = weights.spec
    if isinstance(spec, ResNetSpec):
        if layout != "timm":
            raise ValueError(
                f"layout {layout} has no BiT ResNet; give --to=timm or --to=orbax."
            )
        return Encoded(
            to_theirs(timm_resnet.table(spec), weights.params, layout=layout), {}, ()
        )
    rules, prefix, files = _ENCODERS[layout](weights, spec)
    arrays = to_theirs(rules, weights.params, layout=layout)
    arrays = {prefix + name: array for name, array in arrays.items()}
    notes = tuple(folds(rules))
    if layout == "timm":
        notes += _settle_timm(weights, spec, arrays, files["config.json"])
    return Encoded(arrays, files, notes)


def _settle_timm(
    weights: Weights,
    spec: VitSpec,
    arrays: dict[str, np.ndarray],
    config: dict[str, Any],
) -> tuple[str, ...]:
    """Notes on what timm builds otherwise; the config keeps it in an entry of ours.

    timm reads the entries that it knows; epsilon is one of its code and no argument.
    """
    size = tuple(weights.preprocessing["image_size"])
    arguments = config["model_args"]
    found = timm.read(arrays, config["architecture"], arguments, {}, size).spec
    differing = unsaid.differences(spec, found)
    config["vit_jax"] = {
        "fields": {name: pair[0] for name, pair in differing.items()},
        "loss": weights.loss,
    }
    return tuple(
        f"timm builds its model with {name}={there!r}, where this one has {here!r}"
        for name, (here, there) in differing.items()
    )


_Parts = tuple[list[Rule], str, dict[str, dict[str, Any]]]


def _timm(weights: Weights, spec: VitSpec) -> _Parts:
    _refuse("timm", timm.refusals(spec))
    config = to_timm(spec, weights.preprocessing, weights.class_names)
    rules = timm.table(spec, fused_gate=not spec.stem_norm, pre_logits=False)
    return rules, "", {"config.json": config}


def _huggingface(weights: Weights, spec: VitSpec) -> _Parts:
    family, _ = huggingface_config.family_of(spec)
    rules = huggingface.table(spec, family, f"{family}." if spec.num_classes else "")
    config = huggingface_config.config_of(
        spec, weights.image_shape, weights.class_names
    )
    if weights.loss == "sigmoid" and spec.num_classes:
        config["problem_type"] = "multi_label_classification"
    config["dtype"] = weights.params["stem/projection/kernel"].dtype.name
    processor = to_huggingface(weights.preprocessing)
    return rules, "", {"config.json": config, "preprocessor_config.json": processor}


def _torchvision(weights: Weights, spec: VitSpec) -> _Parts:
    _refuse("torchvision", torchvision.refusals(spec))
    return torchvision.table(spec), "", {}


def _npz(weights: Weights, spec: VitSpec) -> _Parts:
    _refuse("npz", official.refusals(spec))
    prefix, rules = official.table(spec)
    return rules, prefix, {}


_ENCODERS: dict[str, Callable[[Weights, VitSpec], _Parts]] = {
    "timm": _timm,
    "huggingface": _huggingface,
    "torchvision": _torchvision,
    "npz": _npz,
}


def _refuse(layout: str, reasons: list[str]) -> None:
    if reasons:
        raise ValueError(
            f"layout {layout} can't hold this model:\n  " + "\n  ".join(reasons)
        )


def _check(place: epath.Path, layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"--to={layout} must be one of {', '.join(LAYOUTS)}.")
    suffix = place.suffix
    if (layout == "npz") != (suffix == ".npz"):
        raise ValueError(
            f"{place.name} and --to={layout} don't go together: npz, and npz alone, is "
            "written to a name that ends in .npz."
        )
    if layout == "orbax" and suffix in _FILES:
        raise ValueError(f"--to=orbax writes a folder; {place.name} names a file.")


def _metadata(weights: Weights, layout: str, is_file: bool) -> dict[str, str]:
    """Texts in a safetensors file; a folder's config says the rest."""
    metadata = {"format": "pt", WRITTEN: layout}
    if is_file:
        metadata["vit_jax"] = workdirs.described(weights, layout)
    return metadata


def _compare_ours(found: Weights, meant: Weights) -> None:
    """Refuses a folder of ours that reads back as another model."""
    differing = [
        name
        for name in dict.fromkeys([*meant.params, *found.params])
        if name not in found.params
        or name not in meant.params
        or not writing.same(found.params[name], np.asarray(meant.params[name]))
    ]
    for name in ("spec", "preprocessing", "class_names", "loss", "step"):
        if getattr(found, name) != getattr(meant, name):
            differing.append(name)
    if differing:
        raise OSError(writing.otherwise(differing))
