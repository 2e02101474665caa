"""Weights from wherever they lie: a workdir, a folder or a file of any known layout."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
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
    workdirs,
)
from vit_jax.convert.completed import Beside, completed
from vit_jax.convert.files import Stored, read_arrays
from vit_jax.convert.given import Given, held_to
from vit_jax.convert.layout import Found, Weights
from vit_jax.convert.places import (
    WEIGHTS,
    config_of,
    first_file,
    folder_arrays,
    is_foreign,
    is_run,
    place_of,
)
from vit_jax.convert.preprocessing import from_huggingface, from_timm
from vit_jax.convert.published import is_published, local_file
from vit_jax.convert.rules import Rule
from vit_jax.models.spec import ResNetSpec, VitSpec
from vit_jax.workdir import read_json

__all__ = ["decode", "is_foreign", "read"]


def read(
    path: str | os.PathLike,
    *,
    variant: str | None = None,
    image_size: Sequence[int] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    **fields: Any,
) -> Weights:
    """The weights at `path`, whatever their layout; it is told by the content.

    Args:
      path: a converted model's folder, a folder of Hugging Face's or timm's, or an
        .npz, safetensors or PyTorch file; or a published one's name or link
        (`vit_jax.convert.published`), which is downloaded once.
      variant: a model's name, ours or timm's. Where names and shapes of the file leave
        something open (number of heads, GELU, epsilon), it is as that model has it.
      image_size: (rows, columns) in pixels, where a position table is no square's.
      mean, std: of the images, one number or one a channel, where no file says them.
      **fields: of `vit_jax.models.spec.VitSpec`, where the file can't say them.
        num_classes=0 leaves the head out, representation_size=0 the layer before it.

    Raises:
      FileNotFoundError: nothing is there.
      ValueError: it is no known layout, doesn't fit the model or the caller's words, or
        is damaged.
    """
    given = Given.of(variant, image_size, fields, mean, std)
    if is_published(str(path)):
        path = local_file(str(path))
    place = place_of(path)
    weights = _folder(place, given) if place.is_dir() else _file(place, given)
    return dataclasses.replace(weights, place=str(place))


def decode(
    arrays: Mapping[str, np.ndarray],
    *,
    source: str = "the arrays",
    variant: str | None = None,
    image_size: Sequence[int] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    **fields: Any,
) -> Weights:
    """The weights of named arrays in the layout of an .npz, timm or torchvision.

    Args:
      arrays: foreign name -> array.
      source: what they come from, for messages.
      variant, image_size, mean, std, **fields: as of `read`.

    Raises:
      ValueError: the names are of no such layout, or the arrays don't fit the model.
    """
    return _bare(arrays, source, Given.of(variant, image_size, fields, mean, std))


def _folder(place: epath.Path, given: Given) -> Weights:
    if is_run(place):
        raise ValueError(f"{place} is a training run; vit_jax.load reads runs.")
    if (place / workdirs.MODEL).exists():
        return held_to(workdirs.read_model(place), given, str(place))
    if not (place / "config.json").exists():
        if (found := first_file(place)) is not None:
            return _file(found, given)
        raise FileNotFoundError(
            f"{place} has neither a config.json nor one of {', '.join(WEIGHTS)}."
        )
    config = config_of(place)
    return _with_config(folder_arrays(place), place, config, given)


def _with_config(
    stored: Stored, place: epath.Path, config: Mapping[str, Any], given: Given
) -> Weights:
    if "architecture" in config:
        return _with_timms(stored, place, config, given)
    found = huggingface.read(stored.arrays, config)
    _contradicts(found.spec, given, str(place))
    file = place / "preprocessor_config.json"
    processor = read_json(file) if file.exists() else None
    preprocessing, notes = from_huggingface(config, processor)
    numbers = config.get("label2id") or {}
    labels = config.get("id2label") or {i: name for name, i in numbers.items()}
    class_names = tuple(labels[key] for key in sorted(labels, key=int))
    if not found.spec.num_classes:
        # A config names two classes where nobody has named any.
        class_names = ()
    several = config.get("problem_type") == "multi_label_classification"
    beside = Beside(
        preprocessing, class_names, "sigmoid" if several else "softmax", notes
    )
    take = stored.is_private
    return completed("huggingface", str(place), found, beside, given, take=take)


def _with_timms(
    stored: Stored, place: epath.Path, config: Mapping[str, Any], given: Given
) -> Weights:
    ours = config.get("vit_jax") or {}
    preprocessing, class_names = from_timm(config)
    beside = Beside(preprocessing, class_names, ours.get("loss", "softmax"))
    name = given.variant if given.named is None else None
    name = name or config["architecture"]
    take = stored.is_private
    if timm_resnet.detect(stored.arrays):
        found = timm_resnet.read(stored.arrays)
        if (fields := ours.get("fields")) is not None:
            spec = dataclasses.replace(found.spec, **workdirs.fields_of(fields))
            found = found._replace(spec=spec)
        return completed("timm", str(place), found, beside, given, take=take)
    found = timm.read(
        stored.arrays,
        name,
        config.get("model_args") or {},
        workdirs.fields_of(ours.get("fields") or {}) | given.unsaid(),
        given.image_size or tuple(preprocessing["image_size"]),
    )
    return completed("timm", str(place), found, beside, given, take=take)


def _contradicts(spec: VitSpec, given: Given, source: str) -> None:
    """Refuses words of the caller's that a config says otherwise."""
    wrong = [
        f"{name}={value!r}, it has {getattr(spec, name)!r}"
        for name, value in given.fields.items()
        if name not in given.left_out and getattr(spec, name) != value
    ]
    if wrong:
        raise ValueError(
            f"{source} says of itself what it is; leave out:\n  " + "\n  ".join(wrong)
        )


def _file(place: epath.Path, given: Given) -> Weights:
    stored = read_arrays(place)
    if "vit_jax" in stored.metadata:
        return _described(stored, place, given)
    if huggingface.detect(stored.arrays):
        beside = place.parent / "config.json"
        if not beside.exists():
            raise ValueError(
                f"{place} has Hugging Face's names; its config.json must lie beside it."
            )
        return _with_config(stored, place.parent, config_of(place.parent), given)
    return _bare(stored.arrays, str(place), given, take=stored.is_private)


def _described(stored: Stored, place: epath.Path, given: Given) -> Weights:
    """A file that we wrote: its metadata has all that its arrays can't say."""
    said = workdirs.parse(stored.metadata["vit_jax"], str(place))
    resnet = isinstance(said.spec, ResNetSpec)
    modules: dict[str, Callable[[Any], list[Rule]]] = {
        "timm": lambda spec: timm.table(spec, fused_gate=not spec.stem_norm),
        "torchvision": torchvision.table,
        "huggingface": _huggingface_table,
    }
    if said.layout not in modules:
        raise ValueError(
            f"{place} says that its layout is {said.layout!r}; it must be one of "
            f"{', '.join(modules)}. Convert the model again."
        )
    table = timm_resnet.table if resnet else modules[said.layout]
    found = Found(said.spec, stored.arrays, table)
    beside = Beside(said.preprocessing, said.class_names, said.loss)
    weights = completed(
        said.layout, str(place), found, beside, Given(), take=stored.is_private
    )
    return held_to(weights, given, str(place))


def _huggingface_table(spec: VitSpec) -> list[Rule]:
    family, _ = huggingface_config.family_of(spec)
    return huggingface.table(spec, family, f"{family}." if spec.num_classes else "")


def _bare(
    arrays: Mapping[str, np.ndarray], source: str, given: Given, *, take: bool = False
) -> Weights:
    layouts: tuple[tuple[str, Any, Callable[[], Found]], ...] = (
        ("npz", official, lambda: official.read(arrays)),
        ("timm", timm, lambda: _read_timm(arrays, given)),
        ("timm", timm_resnet, lambda: timm_resnet.read(arrays)),
        ("torchvision", torchvision, lambda: torchvision.read(arrays)),
    )
    for layout, module, reader in layouts:
        if module.detect(arrays):
            return completed(layout, source, reader(), Beside(), given, take=take)
    names = ", ".join(list(arrays)[:4])
    raise ValueError(
        f"{source} has names of no known layout ({names}, …); there are those of "
        "vision_transformer and big_vision, timm, Hugging Face and torchvision. For "
        "names of your own, write a table of rules (docs/weights.md)."
    )


def _read_timm(arrays: Mapping[str, np.ndarray], given: Given) -> Found:
    """timm's names; the model's name may be one of theirs or of ours."""
    named, fields = given.named, given.unsaid()
    name = "" if named is not None else given.variant or ""
    if isinstance(named, VitSpec):
        fields = {"num_heads": named.num_heads} | fields
    return timm.read(arrays, name, {}, fields, given.image_size)
