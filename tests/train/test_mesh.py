"""The mesh and the partition table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from vit_jax.train import mesh as meshes


def test_minus_one_takes_the_devices_that_are_left():
    mesh = meshes.make_mesh(data=-1, fsdp=2, tensor=1)
    assert dict(mesh.shape) == {"data": 4, "fsdp": 2, "tensor": 1}
    assert meshes.batch_devices(mesh) == 8


def test_axes_are_auto():
    mesh = meshes.make_mesh(data=-1, fsdp=1, tensor=1)
    assert set(mesh.axis_types) == {jax.sharding.AxisType.Auto}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((3, 1, 1), "must multiply to the 8 devices"),
        ((-1, 3, 1), "must multiply to the 8 devices"),
        ((-1, -1, 1), "at most one -1"),
        ((0, 1, 1), "1 or more"),
        ((-2, 1, 1), "1 or more"),
        ((4, 1, 1), "must multiply to the 8 devices"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        meshes.make_mesh(data=sizes[0], fsdp=sizes[1], tensor=sizes[2])


def test_the_table_splits_kernels_and_replicates_the_rest():
    mesh = meshes.make_mesh(data=2, fsdp=2, tensor=2)
    spec = meshes.partition_spec
    query = spec("encoder/block_0/attention/query/kernel", (64, 4, 16), mesh)
    assert query == PartitionSpec("fsdp", "tensor", None)
    moments = spec("opt_state/0/mu/encoder/block_0/mlp/out/kernel", (128, 64), mesh)
    assert moments == PartitionSpec("tensor", "fsdp")
    assert spec("encoder/block_0/norm_1/scale", (64,), mesh) == PartitionSpec()


def test_a_dimension_that_does_not_divide_is_replicated():
    mesh = meshes.make_mesh(data=2, fsdp=2, tensor=2)
    spec = meshes.partition_spec(
        "encoder/block_0/attention/query/kernel", (64, 3, 16), mesh
    )
    assert spec == PartitionSpec("fsdp", None, None)


def test_a_batch_lies_over_data_and_fsdp():
    mesh = meshes.make_mesh(data=4, fsdp=2, tensor=1)
    batch = meshes.put_batch({"label": np.arange(16, dtype=np.int32)}, mesh)
    assert batch["label"].sharding.spec == PartitionSpec(("data", "fsdp"))
    assert batch["label"].addressable_shards[0].data.shape == (2,)
    np.testing.assert_array_equal(batch["label"], np.arange(16))


def test_every_leaf_of_a_tree_gets_a_sharding():
    mesh = meshes.make_mesh(data=1, fsdp=8, tensor=1)
    tree = {"head": {"kernel": jnp.zeros((16, 10)), "bias": jnp.zeros(10)}}
    found = meshes.shardings(tree, mesh)
    assert found["head"]["kernel"].spec == PartitionSpec("fsdp", "tensor")
    assert found["head"]["bias"].spec == PartitionSpec()


def test_a_batch_of_any_size_is_spread_with_examples_of_weight_0():
    mesh = meshes.local_mesh()
    batch = {
        "image": np.full((11, 2, 2, 1), 7, np.uint8),
        "label": np.arange(11, dtype=np.int32),
        "weight": np.ones(11, np.float32),
        "index": np.arange(11),
    }
    (found,) = meshes.spread([batch], mesh)
    assert found["image"].addressable_shards[0].data.shape == (2, 2, 2, 1)
    assert len(found["image"].sharding.device_set) == 8
    np.testing.assert_array_equal(found["weight"], [1] * 11 + [0] * 5)
    np.testing.assert_array_equal(found["label"][:11], np.arange(11))
    assert len(found["index"]) == 16
