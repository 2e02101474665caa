"""Weights of one model made to fit another."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vit_jax
from vit_jax import trees
from vit_jax.models.adapt import (
    Table,
    adapt,
    count_classes,
    head_is_zero,
    resize_table,
    table_grids,
)
from vit_jax.models.variants import resolve

TINY = {"width": 8, "depth": 2, "num_heads": 2, "mlp_dim": 8, "patch_size": 4}


def model_of(size=(8, 8), **fields):
    """(spec, grid, parameters with every value drawn) of a tiny model."""
    fields = TINY | {"num_classes": 5} | fields
    spec = resolve("Ti/16", fields)
    model = vit_jax.create_model("Ti/16", **fields)
    images = jax.ShapeDtypeStruct((1, *size, 3), jnp.float32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), images)["params"]
    random = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: random.normal(size=leaf.shape).astype(np.float32), shapes
    )
    return spec, model.grid_shape(size), params


def fitted(source, target, **options):
    (old_spec, old_grid, params), (new_spec, new_grid, wanted) = source, target
    options = {"keep_head": True} | options
    return adapt(
        params, wanted, old=(old_spec, old_grid), new=(new_spec, new_grid), **options
    )


def test_the_same_model_takes_the_same_arrays():
    source = model_of()
    params, report = fitted(source, model_of())
    for name, leaf in trees.flatten(source[2]).items():
        assert trees.flatten(params)[name] is leaf
    assert report.lines() == [f"loaded {len(report.loaded)} parameters"]
    assert not (report.resized or report.reset or report.dropped or report.zero_head)


def test_the_table_is_resized_and_its_prefix_stays():
    source, target = model_of((8, 12)), model_of((16, 8))
    params, report = fitted(source, target)
    old, new = source[2]["position"]["table"], params["position"]["table"]
    assert new.shape == (1, 1 + 4 * 2, 8)
    np.testing.assert_array_equal(new[:, 0], old[:, 0])
    for there, here in ((1, 1), (3, 2), (4, 7), (6, 8)):
        np.testing.assert_allclose(new[:, here], old[:, there], rtol=1e-6)
    assert report.resized == {"position/table": ((2, 3), (4, 2))}
    assert "resized position/table: grid 2 x 3 -> 4 x 2" in report.lines()


@pytest.mark.parametrize(
    "fields",
    [{"pool": "none"}, {"pool": "map"}, {"num_registers": 3}, {"pool": "cls_gap"}],
    ids=str,
)
def test_prefix_rows_stay_whatever_the_pool(fields):
    """Case 4: no row before the patches is blended into the grid."""
    source = model_of((8, 8), **fields)
    prefix = source[0].num_prefix
    table = source[2]["position"]["table"]
    table[:, :prefix], table[:, prefix:] = 99, 0
    params, _ = fitted(source, model_of((12, 12), **fields))
    found = params["position"]["table"]
    assert found.shape == (1, prefix + 9, 8)
    assert (found[:, :prefix] == 99).all() and not found[:, prefix:].any()


def test_grids_of_equal_length_and_another_shape_are_resized_too():
    params, report = fitted(model_of((8, 24)), model_of((12, 16)))
    assert report.resized == {"position/table": ((2, 6), (3, 4))}
    assert params["position"]["table"].shape == (1, 13, 8)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"position": "learned_2d"}, ["position/rows", "position/columns"]),
        (
            {"position": "relative"},
            [f"encoder/block_{k}/attention/relative/table" for k in (0, 1)],
        ),
        ({"position": "sincos_2d"}, []),
        ({"position": "rope"}, []),
        ({"num_registers": 2}, ["position/table"]),
    ],
)
def test_every_kind_of_position_goes_to_another_size(fields, names):
    source, target = model_of((8, 8), **fields), model_of((16, 12), **fields)
    params, report = fitted(source, target)
    assert sorted(report.resized) == sorted(names)
    wanted = trees.flatten(target[2])
    found = trees.flatten(params)
    assert {n: leaf.shape for n, leaf in found.items()} == {
        n: leaf.shape for n, leaf in wanted.items()
    }


def test_a_window_keeps_its_relative_table():
    fields = {"position": "relative", "window_size": 2, "global_every": 2}
    spec = dataclasses.replace(resolve("Ti/16", TINY), **fields)
    tables = table_grids(spec, (4, 6))
    assert tables == {
        "encoder/block_0/attention/relative/table": Table((3, 3)),
        "encoder/block_1/attention/relative/table": Table((7, 11)),
    }


def test_names_of_tables_are_those_of_parameters():
    for position in ("learned_1d", "learned_2d", "relative"):
        spec, grid, params = model_of((8, 12), position=position)
        flat = trees.flatten(params)
        for name, table in table_grids(spec, grid).items():
            rows = table.num_prefix + table.grid[0] * table.grid[1]
            assert flat[name].shape[1] == rows, name


def test_a_resnet_has_no_tables():
    assert table_grids(resolve("R50x1", {}), (0, 0)) == {}


def test_the_same_table_is_the_same_array_and_prefix_rows_can_go():
    table = np.arange(5.0).reshape(1, 5, 1)
    assert resize_table(table, Table((2, 2), 1), Table((2, 2), 1)) is table
    cut = resize_table(table, Table((2, 2), 1), Table((2, 2), 0))
    np.testing.assert_array_equal(cut[0, :, 0], [1, 2, 3, 4])
    assert resize_table(table, Table((2, 2), 1), Table((3, 3), 2)) is table


def test_a_head_of_other_classes_is_left_to_the_model():
    """Case 13: the head is reset, and that is said."""
    params, report = fitted(
        model_of(num_classes=21), model_of(num_classes=10), keep_head=False
    )
    assert "head" not in params
    assert report.reset == ("head/bias", "head/kernel")
    assert "reset head (21 -> 10 classes)" in report.lines()


def test_pre_logits_are_dropped_loaded_or_refused():
    """Case 14: likewise for a run's own weights."""
    source = model_of(representation_size=8)
    _, report = fitted(source, model_of())
    assert report.dropped == ("pre_logits/bias", "pre_logits/kernel")
    assert "dropped pre_logits/bias, pre_logits/kernel" in report.lines()
    params, _ = fitted(source, model_of(representation_size=8))
    assert params["pre_logits"]["kernel"] is source[2]["pre_logits"]["kernel"]
    with pytest.raises(ValueError, match=r"pre_logits/kernel is \[8, 8\] in the wei"):
        fitted(source, model_of(representation_size=9), keep_head=False)


def test_the_mean_of_patches_needs_no_class_token():
    params, report = fitted(model_of(), model_of(pool="gap"))
    assert "prefix" not in params
    assert report.dropped == ("prefix/class_token",)
    assert params["position"]["table"].shape == (1, 4, 8)
    assert not report.resized


def test_missing_and_misshapen_weights_are_one_list():
    source = model_of()
    del source[2]["encoder"]["block_1"]["attention"]["query"]["kernel"]
    with pytest.raises(ValueError) as raised:
        fitted(source, model_of(mlp_dim=12))
    text = str(raised.value)
    assert "block_1/attention/query/kernel [8, 2, 4] is missing in the weights" in text
    assert "block_0/mlp/hidden/kernel is [8, 8] in the weights, [8, 12] in" in text
    assert "(7 parameters)" in text


def test_a_long_list_is_cut():
    with pytest.raises(ValueError, match="… and .* more"):
        fitted(model_of(), model_of(width=16))


def test_a_head_of_zeros_is_said():
    source = model_of()
    source[2]["head"]["kernel"][:] = 0
    _, report = fitted(source, model_of())
    assert report.zero_head
    assert "the head is all zeros" in report.lines()[-1]
    assert head_is_zero(source[2])
    assert not head_is_zero(model_of()[2])
    assert not head_is_zero(model_of(num_classes=0)[2])
    assert not fitted(source, model_of(), keep_head=False)[1].zero_head


def test_models_without_a_head_go_either_way():
    params, report = fitted(model_of(), model_of(num_classes=0))
    assert "head" not in params
    assert report.dropped == ("head/bias", "head/kernel")
    _, report = fitted(model_of(num_classes=0), model_of(), keep_head=False)
    assert report.head == (0, 5)


def test_weights_of_half_precision_are_made_the_models_type():
    source = model_of()
    halves = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), source[2])
    params, report = fitted((source[0], source[1], halves), model_of())
    for leaf in jax.tree.leaves(params):
        assert leaf.dtype == np.float32
    assert report.cast == {"bfloat16": len(report.loaded)}
    assert f"cast {len(report.loaded)} parameters of bfloat16" in report.lines()[1]


def test_both_heads_of_a_distilled_model_count():
    source = model_of(pool="distilled", num_registers=1)
    _, report = fitted(source, model_of(pool="distilled", num_registers=1))
    assert report.head == (5, 5) and not report.zero_head
    assert count_classes(source[2]) == 5
    zeros = jax.tree.map(np.zeros_like, source[2]["head"])
    assert head_is_zero(source[2] | {"head": zeros})
    assert not head_is_zero(source[2])
    assert count_classes({"stem": {}}) == 0 and not head_is_zero({"stem": {}})
