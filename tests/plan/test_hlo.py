"""Tests vit_jax/plan/hlo.py on programs of XLA's CPU compiler."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from vit_jax.plan import hlo
from vit_jax.train import mesh as meshes

LAYERS, WIDTH = 5, 256


@pytest.fixture(scope="module")
def compiled():
    """The gradient of five layers in a loop, their weights split over 8 devices."""
    mesh = meshes.make_mesh(data=1, fsdp=8, tensor=1)

    def loss(weights, x):
        def layer(x, weight):
            return jnp.tanh(x @ weight), None

        return jax.lax.scan(layer, x, weights)[0].sum()

    split = NamedSharding(mesh, PartitionSpec(None, "fsdp"))
    rows = NamedSharding(mesh, PartitionSpec("fsdp"))
    weights = jax.ShapeDtypeStruct((LAYERS, WIDTH, WIDTH), jnp.float32, sharding=split)
    x = jax.ShapeDtypeStruct((64, WIDTH), jnp.float32, sharding=rows)
    step = jax.jit(jax.grad(loss), out_shardings=split)
    return step.lower(weights, x).compile()


@pytest.fixture(scope="module")
def program(compiled):
    return hlo.parse(compiled.as_text())


def test_collectives_in_loops_count_as_often_as_they_run(program):
    found = {each.kind: each for each in hlo.collectives(program)}
    size = WIDTH * WIDTH * 4
    gathers = found["all-gather"]
    assert (gathers.count, gathers.bytes) == (2 * LAYERS, 2 * LAYERS * size)
    sums = found["all-reduce"]
    assert (sums.count, sums.bytes) == (LAYERS, LAYERS * size)


def test_loops_raise_the_bytes_by_what_their_bodies_access(program):
    # Nearly all of this program is in its two loops.
    assert 0.8 * LAYERS < hlo.bytes_by_loops(program) < LAYERS


def test_bytes_with_bodies_counted_once_are_the_compilers(compiled, program):
    inside = set(hlo.fused(program))
    once = sum(
        hlo.accessed(program, name) for name in program.runs() if name not in inside
    )
    assert once == pytest.approx(compiled.cost_analysis()["bytes accessed"], rel=1e-3)


def test_a_program_without_loops_is_as_the_compiler_counts_it():
    text = jax.jit(jnp.dot).lower(jnp.ones((4, 4)), jnp.ones((4, 4))).compile()
    program = hlo.parse(text.as_text())
    assert hlo.bytes_by_loops(program) == 1
    assert hlo.collectives(program) == []


def test_gathers_that_start_early_count_what_they_bring():
    """As a TPU writes them: operand and result in one tuple, and a scattered sum."""
    program = hlo.parse(
        "%all-reduce-scatter.1 (p: f32[8,2]) -> f32[2,2] {\n"
        "  %p = f32[8,2]{1,0} parameter(0)\n"
        "  ROOT %all-reduce.2 = f32[8,2]{1,0} all-reduce(%p), channel_id=1\n"
        "}\n"
        "ENTRY %main (a: bf16[2,2], b: f32[8,2]) -> bf16[8,2] {\n"
        "  %a = bf16[2,2]{1,0} parameter(0)\n"
        "  %b = f32[8,2]{1,0} parameter(1)\n"
        "  %f = f32[2,2]{1,0} fusion(%b), kind=kCustom, calls=%all-reduce-scatter.1\n"
        "  %s = (bf16[2,2]{1,0}, bf16[8,2]{1,0}) all-gather-start(%a), channel_id=2\n"
        "  ROOT %d = bf16[8,2]{1,0} all-gather-done(%s)\n"
        "}\n"
    )
    assert hlo.collectives(program) == [
        hlo.Collective("all-gather", 1, 32),
        hlo.Collective("reduce-scatter", 1, 64),
    ]


def test_a_loop_that_says_nothing_runs_up_to_its_conditions_bound():
    """As a TPU writes scans."""
    program = hlo.parse(
        "%body.1 (p: (s32[], f32[4])) -> (s32[], f32[4]) {\n"
        "  %p = (s32[], f32[4]{0}) parameter(0)\n"
        "  %x = f32[4]{0} get-tuple-element(%p), index=1\n"
        "  ROOT %all-reduce.1 = f32[4]{0} all-reduce(%x), channel_id=1\n"
        "}\n"
        "%condition.1 (p: (s32[], f32[4])) -> pred[] {\n"
        "  %c = s32[]{:T(128)} constant(12)\n"
        "  %p = (s32[], f32[4]{0}) parameter(0)\n"
        "  %i = s32[]{:T(128)} get-tuple-element(%p), index=0\n"
        "  ROOT %lt = pred[]{:T(512)} compare(%i, %c), direction=LT\n"
        "}\n"
        "ENTRY %main (t: (s32[], f32[4])) -> (s32[], f32[4]) {\n"
        "  %t = (s32[], f32[4]{0}) parameter(0)\n"
        "  ROOT %w = (s32[], f32[4]{0}) while(%t), condition=%condition.1, "
        "body=%body.1\n"
        "}\n"
    )
    assert hlo.collectives(program) == [hlo.Collective("all-reduce", 12, 12 * 16)]
