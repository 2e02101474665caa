"""What lies at a path: a run, our folder, a folder of others, or a file of weights."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from vit_jax.convert import workdirs
from vit_jax.convert.files import Stored, read_arrays
from vit_jax.convert.published import is_published
from vit_jax.workdir import Workdir, read_json

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.pth", "model.npz")
# Large models lie in several files; these say which array lies where.
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def place_of(path: str | os.PathLike) -> epath.Path:
    """The path in full, which must be there.

    Raises:
      FileNotFoundError: nothing is there.
    """
    place = epath.Path(path)
    if "://" not in str(path):
        place = epath.Path(os.path.abspath(os.path.expanduser(path)))
    if not place.exists():
        raise FileNotFoundError(
            f"{path} is not there; give a workdir, a folder with config.json, or an "
            ".npz, safetensors or PyTorch file."
        )
    return place


def is_foreign(path: str | os.PathLike) -> bool:
    """Whether `source.read` is for it: a file, a link, a name, or a folder of no run.

    What lies in a run's folder beside the run, such as an export of it, counts nothing.
    """
    if is_published(str(path)):
        return True
    place = epath.Path(path).expanduser()
    if not place.is_dir():
        return place.exists()
    if is_run(place):
        return False
    names = (workdirs.MODEL, *_INDEXES, *WEIGHTS)
    return any((place / name).exists() for name in names)


def is_run(place: epath.Path) -> bool:
    """Whether a folder is a training run's."""
    run = Workdir(place)
    others = (run.preprocessing, run.checkpoints)
    return run.config.exists() and any(other.exists() for other in others)


def folder_arrays(place: epath.Path) -> Stored:
    """The arrays of a folder, which large models spread over several files.

    Raises:
      FileNotFoundError: it has none, or not all.
      ValueError: its index or a file is damaged.
    """
    for name in _INDEXES:
        if (place / name).exists():
            return _indexed(place, place / name)
    found = first_file(place)
    if found is None:
        raise FileNotFoundError(
            f"{place} has a config.json and no weights; it must have one of "
            f"{', '.join(WEIGHTS)}."
        )
    return read_arrays(found)


def first_file(place: epath.Path) -> epath.Path | None:
    """The file of weights in a folder; None where there is none."""
    return next((place / n for n in WEIGHTS if (place / n).exists()), None)


def _indexed(place: epath.Path, index: epath.Path) -> Stored:
    said = read_json(index)
    shards = said.get("weight_map") if isinstance(said, Mapping) else None
    if not isinstance(shards, Mapping) or not shards:
        raise ValueError(f"{index} has no weight_map; get the folder again.")
    names = sorted({str(shard) for shard in shards.values()})
    outside = [name for name in names if not name or os.path.basename(name) != name]
    if outside or any(name in ("..", ".") for name in names):
        raise ValueError(
            f"{index} names {', '.join(outside) or '..'}, which is no file beside it; "
            "get the folder from where you trust it."
        )
    arrays: dict[str, np.ndarray] = {}
    kind = ""
    for name in names:
        stored = read_arrays(place / name)
        twice = sorted(arrays.keys() & stored.arrays.keys())
        if twice:
            raise ValueError(
                f"{place / name} and a file before it both have "
                f"{', '.join(twice[:3])}; get the folder again."
            )
        arrays |= stored.arrays
        kind = stored.kind
    return Stored(kind, arrays)


def config_of(place: epath.Path) -> dict[str, Any]:
    """A folder's config.json.

    Raises:
      ValueError: it is damaged, or a training run's.
    """
    config = read_json(place / "config.json")
    if not isinstance(config, dict):
        raise ValueError(f"{place / 'config.json'} is no object; get the folder again.")
    if "model_type" not in config and "architecture" not in config:
        raise ValueError(
            f"{place} is a training run, or its config.json is damaged; "
            "vit_jax.load reads runs."
        )
    return config
