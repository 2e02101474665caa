"""The device mesh and the one table that says how each parameter lies on it.

Axes: "data" splits the batch; "fsdp" splits the batch and the weights; "tensor" splits
each layer. Model code knows nothing of this: the compiler follows the shardings.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from vit_jax import trees

AnyMesh = Mesh | AbstractMesh

AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")

# Auto on purpose: jax.make_mesh's Explicit default would ask the model for shardings
# wherever two operands meet.
_KINDS = (AxisType.Auto,) * len(AXES)

# Pattern of a '/'-joined name -> axis of each dimension; the first match wins. The
# optimizer's moments end in the same names, so one table serves both.
PARTITION_RULES = (
    # D, H, K; then H, K; then H, K, D.
    (r"(attention|pool)/(query|key|value)/kernel$", ("fsdp", "tensor", None)),
    (r"(attention|pool)/(query|key|value)/bias$", ("tensor", None)),
    (r"(attention|pool)/out/kernel$", ("tensor", None, "fsdp")),
    (r"mlp/(hidden|gate)/kernel$", ("fsdp", "tensor")),  # D, F
    (r"mlp/(hidden|gate)/bias$", ("tensor",)),  # F
    (r"mlp/out/kernel$", ("tensor", "fsdp")),  # F, D
    (r"(head|pre_logits)/kernel$", ("fsdp", "tensor")),  # D, V
    # Convolutions of every stem and ResNet: rows, columns, channels in and out.
    (r"^(.*/)?(stem|stages|root)/(.*/)?kernel$", (None, None, None, "fsdp")),
    (r"", ()),
)


def make_mesh(
    *, data: int, fsdp: int, tensor: int, devices: Sequence[jax.Device] | None = None
) -> Mesh:
    """A mesh over all devices of all processes; one axis may be -1 and takes the rest.

    Args:
      devices: others than those that are here, such as a topology's.

    Raises:
      ValueError: the sizes do not multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    shape = _shape(len(devices), data=data, fsdp=fsdp, tensor=tensor)
    if len({device.process_index for device in devices}) == 1:
        return jax.make_mesh(shape, AXES, axis_types=_KINDS, devices=devices)
    # A process after the other: on a TPU slice of several hosts jax.make_mesh mixes
    # them, and then no process holds one part of the batch (`batch_part`).
    ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(ordered).reshape(shape), AXES, axis_types=_KINDS)


def abstract_mesh(count: int, *, data: int, fsdp: int, tensor: int) -> AbstractMesh:
    """A mesh of `count` devices that nobody has: enough for shapes and shardings.

    Raises:
      ValueError: the sizes do not multiply to `count`.
    """
    shape = _shape(count, data=data, fsdp=fsdp, tensor=tensor)
    return AbstractMesh(shape, AXES, axis_types=_KINDS)


def _shape(count: int, **sizes: int) -> tuple[int, ...]:
    known = int(np.prod([size for size in sizes.values() if size != -1]))
    shown = " ".join(f"mesh.{axis}={size}" for axis, size in sizes.items())
    if list(sizes.values()).count(-1) > 1 or min(sizes.values()) < -1 or known == 0:
        raise ValueError(f"{shown}: sizes must be 1 or more, and at most one -1.")
    if count % known or (-1 not in sizes.values() and known != count):
        raise ValueError(
            f"{shown} must multiply to the {count} devices here; set mesh.data=-1 to "
            "take all that the other axes leave."
        )
    return tuple(count // known if size == -1 else size for size in sizes.values())


def local_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh that splits batches alone, over devices of this process.

    Args:
      devices: None: all of them.
    """
    devices = np.array(devices or jax.local_devices()).reshape(-1, 1, 1)
    return Mesh(devices, AXES, axis_types=_KINDS)


def batch_devices(mesh: AnyMesh) -> int:
    """Number of parts that a batch is split into."""
    return int(np.prod([mesh.shape[axis] for axis in BATCH_AXES]))


def batch_part(mesh: AnyMesh) -> tuple[int, int]:
    """(index, count): this process reads part `index` of `count` equal ones of a batch.

    Processes whose devices share rows, as with a "tensor" axis over them, read the
    same part.

    Raises:
      ValueError: the devices of a process hold no such part.
    """
    if isinstance(mesh, AbstractMesh):
        return 0, 1
    rows = mesh.devices.reshape(batch_devices(mesh), -1)
    held: dict[int, list[int]] = {}
    for row, devices in enumerate(rows):
        for process in {device.process_index for device in devices}:
            held.setdefault(process, []).append(row)
    for process, own in held.items():
        if own[0] % len(own) or own != list(range(own[0], own[0] + len(own))):
            raise ValueError(
                f"mesh.tensor={mesh.shape['tensor']}: the devices of process {process} "
                "must hold one part of the batch; take a size that divides the devices "
                "of a process, or a multiple of their number."
            )
    own = held[jax.process_index()]
    return own[0] // len(own), len(rows) // len(own)


def batch_sharding(mesh: AnyMesh) -> NamedSharding:
    """Sharding of an array whose first axis is the batch."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated(mesh: AnyMesh) -> NamedSharding:
    """Sharding of what every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def shardings(tree: Any, mesh: AnyMesh) -> Any:
    """A NamedSharding for each leaf of a tree of arrays or `ShapeDtypeStruct`."""

    def leaf_sharding(path, leaf):
        spec = partition_spec(trees.path_name(path), leaf.shape, mesh)
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(leaf_sharding, tree)


def partition_spec(name: str, shape: tuple[int, ...], mesh: AnyMesh) -> PartitionSpec:
    """How a parameter or moment lies on the mesh.

    A dimension that its axis does not divide, or a parameter of another rank than its
    rule, is replicated.
    """
    axes = next(axes for rule, axes in PARTITION_RULES if re.search(rule, name))
    if len(axes) != len(shape):
        return PartitionSpec()
    return PartitionSpec(
        *(
            axis if axis and size % mesh.shape[axis] == 0 else None
            for axis, size in zip(axes, shape, strict=True)
        )
    )


def put_batch(
    batch: dict[str, np.ndarray], mesh: Mesh, *, index: bool = False
) -> dict[str, jax.Array]:
    """This process's part of a batch, as `batch_part` says, over the whole mesh.

    Args:
      index: whether "index" goes along, as int32: devices have no 64-bit integers, and
        no training step reads it.
    """
    sharding = batch_sharding(mesh)
    _, count = batch_part(mesh)
    if index:
        batch = batch | {"index": batch["index"].astype(np.int32)}
    return {
        name: jax.make_array_from_process_local_data(
            sharding, part, (part.shape[0] * count, *part.shape[1:])
        )
        for name, part in batch.items()
        if index or name != "index"
    }


def spread(
    batches: Iterable[dict[str, np.ndarray]], mesh: Mesh
) -> Iterator[dict[str, jax.Array]]:
    """Batches, "index" with them, over the devices of a `local_mesh`.

    What the devices don't share evenly is filled up with examples of weight 0.
    """
    count = batch_devices(mesh)
    for batch in batches:
        missing = -len(batch["weight"]) % count
        filled = {
            name: np.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1))
            for name, values in batch.items()
        }
        yield put_batch(filled, mesh, index=True)
