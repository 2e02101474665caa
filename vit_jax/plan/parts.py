"""The parts of a run whose data and devices are elsewhere."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from vit_jax.data.sources import size_of_part
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts, assemble
from vit_jax.train.inputs import open_inputs, unread_inputs

# Examples of each split and classes of public sets that few have on their laptop.
# Sources: Russakovsky et al. 2015, arXiv 1409.0575, table 2; Krizhevsky 2009; Parkhi et
# al. 2012; Nilsback and Zisserman 2008 (the splits of their published archives).
_KNOWN = {
    "tfds:imagenet2012": ({"train": 1_281_167, "validation": 50_000}, 1000),
    "tfds:cifar10": ({"train": 50_000, "test": 10_000}, 10),
    "tfds:cifar100": ({"train": 50_000, "test": 10_000}, 100),
    "tfds:oxford_iiit_pet": ({"train": 3_680, "test": 3_669}, 37),
    "tfds:oxford_flowers102": (
        {"train": 1_020, "validation": 1_020, "test": 6_149},
        102,
    ),
}


def count_examples(config: ConfigDict) -> int:
    """Examples of an epoch; fills in `model.num_classes` where it is unset.

    The data is opened where it is here; of a known public set the size is known.

    Raises:
      ValueError: neither; or faults of the data keys.
      FileNotFoundError: the data is not there.
    """
    source, split = config.data.source, config.data.train.split
    name = split.partition("[")[0]
    splits, classes = _KNOWN.get(source, ({}, 0))
    if name in splits:
        size = size_of_part(split, splits[name])
        size = round(size * config.data.train.fraction)
    else:
        inputs = open_inputs(config, evaluation=False)
        size, classes = inputs.num_examples, len(inputs.class_names)
    if config.model.num_classes is None:
        config.model.num_classes = classes
    return size


def planned_parts(
    config: ConfigDict,
    num_examples: int,
    devices: int | Sequence[jax.Device],
    faults: Sequence[str] = (),
) -> Parts:
    """The parts of a run, on `devices` or on a number of them that nobody has.

    Raises:
      ValueError: see `assemble`.
    """
    return assemble(
        config,
        faults=faults,
        # Fresh weights and given ones take the same step.
        resumed=config.model.variant != "auto",
        make_mesh=_mesh_maker(devices),
        open_data=lambda config, part, evaluation: unread_inputs(config, num_examples),
    )


def _mesh_maker(devices: int | Sequence[jax.Device]) -> Callable[..., meshes.AnyMesh]:
    if isinstance(devices, int):
        return functools.partial(meshes.abstract_mesh, devices)
    return functools.partial(meshes.make_mesh, devices=devices)


def abstract_batch(parts: Parts) -> dict[str, Any]:
    """The batch that the training step takes, of shapes alone."""
    size, where = parts.config.data.train.batch_size, meshes.batch_sharding(parts.mesh)

    def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((size, *shape), dtype, sharding=where)

    return {
        "image": array(jnp.uint8, *parts.image_shape),
        "label": array(jnp.int32),
        "weight": array(jnp.float32),
    }
