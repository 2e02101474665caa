"""Weights into another layout's files, read back and compared before they count."""

import contextlib
import dataclasses
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from etils import epath

from vit_jax.convert import (
    huggingface,
    official,
    timm,
    timm_resnet,
    torchvision,
    workdirs,
)
from vit_jax.convert.files import (
    npz_bytes,
    read_arrays,
    safetensors_bytes,
    torch_bytes,
)
from vit_jax.convert.layout import Weights
from vit_jax.convert.preprocessing import to_huggingface, to_timm
from vit_jax.convert.rules import Rule, folds, to_theirs
from vit_jax.models.variants import ResNetSpec, Spec, VitSpec

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

    Raises:
      FileExistsError: `dest` is there and `overwrite` is False.
      ValueError: the layout can't hold the model, or has no such kind of file.
    """
    place = epath.Path(dest)
    if "://" not in str(dest):
        place = epath.Path(os.path.abspath(os.path.expanduser(dest)))
    _check(place, layout, overwrite)
    if layout == "orbax":
        with _renamed(place, overwrite) as fresh:
            workdirs.write_model(fresh, weights)
            _compare(workdirs.read_model(fresh).params, weights.params)
        return ()
    encoded = encode(weights, layout)
    is_file = place.suffix in _FILES
    if not is_file and not encoded.files:
        raise ValueError(
            f"{layout} has no folder for this model; give DEST.pth or DEST.safetensors."
        )
    with _renamed(place, overwrite) as fresh:
        file = fresh
        if not is_file:
            fresh.mkdir(parents=True)
            for name, content in encoded.files.items():
                (fresh / name).write_text(json.dumps(content, indent=2) + "\n")
            file = fresh / "model.safetensors"
        file.write_bytes(_content(place.suffix, encoded, weights, layout))
        _compare(read_arrays(file).arrays, encoded.arrays)
    notes = list(encoded.notes)
    if is_file and place.suffix != ".safetensors":
        notes += _unsaid(weights.spec, layout)
    return tuple(notes)


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
    return Encoded(arrays, files, tuple(folds(rules)))


_Parts = tuple[list[Rule], str, dict[str, dict[str, Any]]]


def _timm(weights: Weights, spec: VitSpec) -> _Parts:
    _refuse("timm", timm.refusals(spec))
    config = to_timm(spec, weights.preprocessing, weights.class_names)
    rules = timm.table(spec, fused_gate=not spec.stem_norm, pre_logits=False)
    return rules, "", {"config.json": config}


def _huggingface(weights: Weights, spec: VitSpec) -> _Parts:
    family, _ = huggingface.family_of(spec)
    rules = huggingface.table(spec, family, f"{family}." if spec.num_classes else "")
    config = huggingface.config_of(spec, weights.image_shape, weights.class_names)
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
_UNSAID = {
    "timm": timm.unsaid,
    "torchvision": torchvision.unsaid,
    "npz": official.unsaid,
}


def _refuse(layout: str, reasons: list[str]) -> None:
    if reasons:
        raise ValueError(
            f"layout {layout} can't hold this model:\n  " + "\n  ".join(reasons)
        )


def _unsaid(spec: Spec, layout: str) -> list[str]:
    said = isinstance(spec, ResNetSpec) or layout not in _UNSAID
    fields = {} if said else _UNSAID[layout](spec)
    if not fields:
        return []
    said = ", ".join(f"{key}={value!r}" for key, value in fields.items())
    return [f"the file can't say {said}; say it where it is read"]


def _check(place: epath.Path, layout: str, overwrite: bool) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"--to={layout} must be one of {', '.join(LAYOUTS)}.")
    suffix = place.suffix
    is_file = suffix in _FILES
    if (layout == "npz") != (suffix == ".npz"):
        raise ValueError(
            f"{place.name} and --to={layout} don't go together: npz, and npz alone, is "
            "written to a name that ends in .npz."
        )
    if layout == "orbax" and is_file:
        raise ValueError(f"--to=orbax writes a folder; {place.name} names a file.")
    if place.exists() and not overwrite:
        raise FileExistsError(f"{place} is there already; --overwrite replaces it.")


def _content(suffix: str, encoded: Encoded, weights: Weights, layout: str) -> bytes:
    if suffix in _TORCH:
        return torch_bytes(encoded.arrays)
    if suffix == ".npz":
        return npz_bytes(encoded.arrays)
    metadata = {"format": "pt"}
    if suffix == ".safetensors":
        said = {
            "layout": layout,
            "kind": workdirs.kind_of(weights.spec),
            "fields": dataclasses.asdict(weights.spec),
            "preprocessing": weights.preprocessing,
            "class_names": weights.class_names,
        }
        metadata["vit_jax"] = json.dumps(said)
    return safetensors_bytes(encoded.arrays, metadata)


@contextlib.contextmanager
def _renamed(place: epath.Path, overwrite: bool) -> Iterator[epath.Path]:
    """A fresh name beside `place`, renamed to it where all goes well."""
    fresh = place.parent / f".{place.name}.{uuid.uuid4().hex[:8]}.tmp"
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield fresh
        if overwrite and place.exists():
            aside = place.parent / f".{place.name}.{uuid.uuid4().hex[:8]}.old"
            place.rename(aside)
            fresh.rename(place)
            _remove(aside)
        else:
            fresh.rename(place)
    finally:
        if fresh.exists():
            _remove(fresh)


def _remove(place: epath.Path) -> None:
    if place.is_dir():
        place.rmtree()
    else:
        place.unlink()


def _compare(found: Mapping[str, np.ndarray], meant: Mapping[str, np.ndarray]) -> None:
    """Refuses arrays that are not, bit by bit, those that were to be written."""
    differing = [
        name
        for name in meant.keys() | found.keys()
        if name not in found
        or name not in meant
        or found[name].dtype != meant[name].dtype
        or found[name].shape != meant[name].shape
        or found[name].tobytes() != meant[name].tobytes()
    ]
    if differing:
        raise OSError(
            f"what was written reads back otherwise ({', '.join(differing[:5])}); "
            "nothing was kept. Is the disk full, or the machine's memory damaged?"
        )
