"""Weights from wherever they lie: a workdir, a folder or a file of any known layout."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
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
from vit_jax.convert.files import Stored, read_arrays
from vit_jax.convert.layout import (
    Found,
    Weights,
    check_fields,
    describe,
    shapes_of,
    size_of,
    stem_stride,
)
from vit_jax.convert.preprocessing import from_huggingface, from_timm
from vit_jax.convert.published import is_published, local_file
from vit_jax.convert.rules import Rule, folds, to_ours
from vit_jax.models.variants import VARIANTS, ResNetSpec, Spec, VitSpec
from vit_jax.workdir import read_json

_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.pth", "model.npz")
# Fields that 0 leaves out, and the parameters that go with them.
_LEFT_OUT = {"num_classes": "head/", "representation_size": "pre_logits/"}
_INDEX = "model.safetensors.index.json"


@dataclasses.dataclass(frozen=True)
class _Given:
    """What the caller says that a file can't."""

    variant: str | None
    image_size: tuple[int, int] | None
    fields: Mapping[str, Any]


def read(
    path: str | os.PathLike,
    *,
    variant: str | None = None,
    image_size: Sequence[int] | None = None,
    **fields: Any,
) -> Weights:
    """The weights at `path`, whatever their layout; it is told by the content.

    Args:
      path: a training workdir, a converted model's folder, a folder of Hugging Face's
        or timm's, or an .npz, safetensors or PyTorch file; or a published one's name
        or link (`vit_jax.convert.published`), which is downloaded once.
      variant: a model's name, ours or timm's, where names and shapes of the file leave
        something open (number of heads, GELU, epsilon).
      image_size: (rows, columns) in pixels, where a position table is no square's.
      **fields: of `vit_jax.models.variants.VitSpec`, said otherwise than was found.

    Raises:
      FileNotFoundError: nothing is there.
      ValueError: it is no known layout, doesn't fit the model, or is damaged.
    """
    if is_published(str(path)):
        path = local_file(str(path))
    place = epath.Path(path)
    if "://" not in str(path):
        place = epath.Path(os.path.abspath(os.path.expanduser(path)))
    if not place.exists():
        raise FileNotFoundError(
            f"{path} is not there; give a workdir, a folder with config.json, or an "
            ".npz, safetensors or PyTorch file."
        )
    given = _given(variant, image_size, fields)
    return _folder(place, given) if place.is_dir() else _file(place, given)


def is_foreign(path: str | os.PathLike) -> bool:
    """Whether `read` is for it: a file, a link, a name, or a folder of no run."""
    if is_published(str(path)):
        return True
    place = epath.Path(path).expanduser()
    if not place.is_dir():
        return place.exists()
    if (place / workdirs.MODEL).exists() or (place / _INDEX).exists():
        return True
    return any((place / name).exists() for name in _WEIGHTS)


def _given(
    variant: str | None, image_size: Sequence[int] | None, fields: Mapping[str, Any]
) -> _Given:
    check_fields(fields)
    size = None if image_size is None else (int(image_size[0]), int(image_size[-1]))
    return _Given(variant, size, fields)


def _folder(place: epath.Path, given: _Given) -> Weights:
    if (place / workdirs.MODEL).exists():
        return workdirs.read_model(place)
    if not (place / "config.json").exists():
        found = [place / name for name in _WEIGHTS if (place / name).exists()]
        if found:
            return _file(found[0], given)
        raise FileNotFoundError(
            f"{place} has neither a config.json nor one of {', '.join(_WEIGHTS)}."
        )
    config = read_json(place / "config.json")
    if "model_type" not in config and "architecture" not in config:
        raise ValueError(
            f"{place} is a training run, or its config.json is damaged; "
            "vit_jax.load reads runs."
        )
    return _with_config(_folder_arrays(place), place, config, given)


def _folder_arrays(place: epath.Path) -> Stored:
    """The arrays of a folder, which large models spread over several files."""
    if (place / _INDEX).exists():
        shards = sorted(set(read_json(place / _INDEX)["weight_map"].values()))
        arrays: dict[str, np.ndarray] = {}
        for shard in shards:
            arrays |= read_arrays(place / shard).arrays
        return Stored("safetensors", arrays)
    for name in _WEIGHTS:
        if (place / name).exists():
            return read_arrays(place / name)
    raise FileNotFoundError(
        f"{place} has a config.json and no weights; it must have one of "
        f"{', '.join(_WEIGHTS)}."
    )


def _with_config(
    stored: Stored, place: epath.Path, config: Mapping[str, Any], given: _Given
) -> Weights:
    if "architecture" in config:
        name = given.variant or config["architecture"]
        arguments = config.get("model_args") or {}
        found = timm.read(
            stored.arrays, name, arguments, given.fields, given.image_size
        )
        preprocessing, class_names = from_timm(config)
        return _weights("timm", str(place), found, preprocessing, class_names, given)
    found = huggingface.read(stored.arrays, config)
    file = place / "preprocessor_config.json"
    processor = read_json(file) if file.exists() else {}
    preprocessing = from_huggingface(config, processor)
    labels = config.get("id2label") or {}
    class_names = tuple(labels[key] for key in sorted(labels, key=int))
    return _weights("huggingface", str(place), found, preprocessing, class_names, given)


def _file(place: epath.Path, given: _Given) -> Weights:
    stored = read_arrays(place)
    if "vit_jax" in stored.metadata:
        return _described(stored, place, given)
    if huggingface.detect(stored.arrays):
        beside = place.parent / "config.json"
        if not beside.exists():
            raise ValueError(
                f"{place} has Hugging Face's names; its config.json must lie beside it."
            )
        return _with_config(stored, place.parent, read_json(beside), given)
    return _bare(stored.arrays, str(place), given)


def decode(
    arrays: Mapping[str, np.ndarray],
    *,
    source: str = "the arrays",
    variant: str | None = None,
    image_size: Sequence[int] | None = None,
    **fields: Any,
) -> Weights:
    """The weights of named arrays in the layout of an .npz, timm or torchvision.

    Args:
      arrays: foreign name -> array.
      source: what they come from, for messages.
      variant, image_size, **fields: as of `read`.

    Raises:
      ValueError: the names are of no such layout, or the arrays don't fit the model.
    """
    return _bare(arrays, source, _given(variant, image_size, fields))


def _bare(arrays: Mapping[str, np.ndarray], source: str, given: _Given) -> Weights:
    layouts: tuple[tuple[str, Any, Callable[[], Found]], ...] = (
        ("npz", official, lambda: official.read(arrays)),
        ("timm", timm, lambda: _read_timm(arrays, given)),
        ("timm", timm_resnet, lambda: timm_resnet.read(arrays)),
        ("torchvision", torchvision, lambda: torchvision.read(arrays)),
    )
    for layout, module, reader in layouts:
        if module.detect(arrays):
            return _weights(layout, source, reader(), None, (), given)
    names = ", ".join(list(arrays)[:4])
    raise ValueError(
        f"{source} has names of no known layout ({names}, …); there are those of "
        "vision_transformer and big_vision, timm, Hugging Face and torchvision. For "
        "names of your own, write a table of rules (docs/weights.md)."
    )


def _read_timm(arrays: Mapping[str, np.ndarray], given: _Given) -> Found:
    """timm's names; the model's name may be one of theirs or of ours."""
    spec = VARIANTS.get(given.variant or "")
    name = "" if spec is not None else given.variant or ""
    heads = {"num_heads": spec.num_heads} if isinstance(spec, VitSpec) else {}
    return timm.read(arrays, name, heads, given.fields, given.image_size)


def _described(stored: Stored, place: epath.Path, given: _Given) -> Weights:
    """A file that we wrote: its metadata has all that its arrays can't say."""
    said = json.loads(stored.metadata["vit_jax"])
    spec = workdirs.spec_of(said["kind"], said["fields"])
    resnet = isinstance(spec, ResNetSpec)
    modules: dict[str, Callable[[Any], list[Rule]]] = {
        "timm": lambda spec: timm.table(spec, fused_gate=not spec.stem_norm),
        "torchvision": torchvision.table,
        "huggingface": _huggingface_table,
    }
    layout = said["layout"]
    table = timm_resnet.table if resnet else modules[layout]
    found = Found(spec, stored.arrays, table)
    names = tuple(said["class_names"])
    return _weights(layout, str(place), found, said["preprocessing"], names, given)


def _huggingface_table(spec: VitSpec) -> list[Rule]:
    family, _ = huggingface.family_of(spec)
    return huggingface.table(spec, family, f"{family}." if spec.num_classes else "")


def _weights(
    layout: str,
    source: str,
    found: Found,
    preprocessing: dict[str, Any] | None,
    class_names: tuple[str, ...],
    given: _Given,
) -> Weights:
    _check_variant(found.spec, given.variant, source)
    left_out = [
        name
        for name in _LEFT_OUT
        if given.fields.get(name) == 0 and getattr(found.spec, name, 0)
    ]
    kept = {k: v for k, v in given.fields.items() if k not in left_out}
    spec, arrays = dataclasses.replace(found.spec, **kept), found.arrays
    rules = found.table(spec)
    channels = _channels(rules, arrays)
    size = _image_size(spec, rules, arrays, preprocessing, given.image_size)
    if preprocessing is None:
        preprocessing = describe(size, channels=channels)
    preprocessing = preprocessing | {"image_size": list(size)}
    shapes = shapes_of(spec, (*size, channels))
    params = to_ours(rules, arrays, shapes, source=source)
    notes = [*found.notes, *folds(rules), *_head_notes(params)]
    for name in left_out:
        start = _LEFT_OUT[name]
        params = {k: v for k, v in params.items() if not k.startswith(start)}
        notes.append(f"{start.rstrip('/')} of {getattr(spec, name)} left out")
    spec = dataclasses.replace(spec, image_size=size[0], **dict.fromkeys(left_out, 0))
    return Weights(layout, spec, params, preprocessing, class_names, notes=tuple(notes))


def _check_variant(spec: Spec, variant: str | None, source: str) -> None:
    """Refuses weights of another size than the name that the caller gave.

    Raises:
      ValueError: lists the sizes that differ.
    """
    named = VARIANTS.get(variant or "")
    if named is None:
        return
    differing = [
        f"{name}={getattr(spec, name, None)!r}, must be {getattr(named, name, None)!r}"
        for name in ("width", "depth", "num_heads", "mlp_dim", "patch_size", "stem")
        if getattr(spec, name, None) != getattr(named, name, None)
    ]
    if differing:
        raise ValueError(
            f"{source} is no {variant}; it has:\n  " + "\n  ".join(differing)
        )


def _channels(rules: Sequence[Rule], arrays: Mapping[str, np.ndarray]) -> int:
    """Of the images: what the first convolution takes."""
    for name in ("stem/root/kernel", "stem/projection/kernel"):
        rule = next((rule for rule in rules if name in rule.ours), None)
        if rule is not None and rule.theirs[0] in arrays:
            return rule.back([arrays[rule.theirs[0]]])[0].shape[2]
    return 3


def _image_size(
    spec: VitSpec,
    rules: Sequence[Rule],
    arrays: Mapping[str, np.ndarray],
    preprocessing: Mapping[str, Any] | None,
    given: tuple[int, int] | None,
) -> tuple[int, int]:
    """(rows, columns) of pixels that the position table is for."""
    rule = next((rule for rule in rules if "position/table" in rule.ours), None)
    said = given
    if said is None and preprocessing is not None:
        said = tuple(preprocessing["image_size"])
    if rule is None or any(name not in arrays for name in rule.theirs):
        return said or (spec.image_size, spec.image_size)
    table = rule.back([arrays[name] for name in rule.theirs])[
        rule.ours.index("position/table")
    ]
    slots = spec.num_prefix if spec.prefix_positions else 0
    hybrid = spec.stem == "resnet"
    return size_of(table.shape[1] - slots, said, stem_stride(spec), hybrid)


def _head_notes(params: Mapping[str, np.ndarray]) -> list[str]:
    kernel = params.get("head/kernel")
    if kernel is None or np.any(kernel):
        return []
    return [
        "the head is all zeros: the weights are for fine-tuning, and predict nothing"
    ]
