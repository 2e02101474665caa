"""Training steps compiled by the TPU compiler, where libtpu is installed."""

import importlib.util
import json

import pytest

from tests.train.digits import tiny_config
from vit_jax.__main__ import main
from vit_jax.plan import compile as compiling
from vit_jax.plan.compile import DoesNotFit, compile_step
from vit_jax.plan.make import make_plan
from vit_jax.plan.targets import parse_target

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="needs libtpu: pip install 'vit_jax[compile]'",
)


def test_without_libtpu_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'vit_jax\[compile\]'"):
        compile_step(tiny_config(), 1437, parse_target("tpu:v5e:2x2"))


def test_what_the_compiler_refuses_comes_with_what_to_change(monkeypatch):
    def refuse(*_):
        raise DoesNotFit(20 * 2**30, 15 * 2**30)

    monkeypatch.setattr("vit_jax.plan.make.compile_step", refuse)
    plan = make_plan(tiny_config(), ["tpu:v5e:2x2"], compiles=True)
    assert "needs 20.0 GiB a device and there are 15.0" in plan.compiled_fault
    assert {"train.remat"} in [set(change.values) for change in plan.rows[0].changes]


@pytest.mark.slow
@needs_libtpu
def test_the_command_compiles_for_a_slice_that_is_not_here(capsys):
    flags = ["--config=digits", "--config.model.depth=2", "--config.train.scan=True"]
    flags += ["--config.data.train.batch_size=64", "--target=tpu:v5e:2x2"]
    assert main(["plan", *flags, "--compile", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["by"] == "compiler"
    assert found["bytes_per_device"] >= found["arguments"] + found["temporaries"]
    # Loops in full: as many as the formula has, and the compiler's own beside them.
    formula = found["step_flops"] / 4
    assert 0.9 * formula < found["flops_per_device"] < 2 * formula
    assert found["bytes_accessed_per_device"] > 0
    assert found["compile_seconds"] > 0
    kinds = {each["kind"]: each for each in found["collectives"]}
    assert kinds["all-reduce"]["bytes"] > 2 * found["parameters"]


@pytest.mark.slow
@needs_libtpu
def test_each_process_of_a_slice_holds_one_part_of_the_batch():
    """On 4 x 4 chips four hosts have 2 x 2 each, which jax.make_mesh would mix."""
    code = (
        "from vit_jax.plan.compile import topology_devices\n"
        "from vit_jax.plan.targets import parse_target\n"
        "from vit_jax.train import mesh as meshes\n"
        "devices = topology_devices(parse_target('tpu:v5e:4x4'))\n"
        "for fsdp, tensor in ((1, 1), (4, 1), (2, 2), (16, 1)):\n"
        "    mesh = meshes.make_mesh(\n"
        "        data=-1, fsdp=fsdp, tensor=tensor, devices=devices)\n"
        "    print(*meshes.batch_part(mesh))\n"
    )
    assert compiling.in_child(["-c", code]).split() == ["0", "4"] * 4
