"""Plans by formula: costs, memory, what fits, what to change."""

import copy
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.train.digits import tiny_config
from vit_jax import config as configuration
from vit_jax.models.variants import resolve
from vit_jax.plan import estimate, tracing
from vit_jax.plan.make import make_plan
from vit_jax.plan.memory import activation_bytes, sharded_bytes
from vit_jax.plan.parts import abstract_batch, count_examples, planned_parts
from vit_jax.plan.table import as_dict, as_text
from vit_jax.plan.targets import parse_target
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import assemble


def pretraining(**changes):
    """ImageNet's recipe for a small model that nobody has the images for."""
    values = {
        "model.variant": "S/16",
        "data.source": "tfds:imagenet2012",
        "data.train.split": "train[:99%]",
        "data.train.batch_size": 1024,
        "data.eval.batch_size": 1024,
        "schedule.total_epochs": 90.0,
        "train.compute_dtype": "bfloat16",
    }
    config = configuration.default_config()
    values |= {key.replace("__", "."): value for key, value in changes.items()}
    config.update_from_flattened_dict(values)
    return config


@pytest.fixture(scope="module")
def plan():
    return make_plan(pretraining(), ["tpu:v5e:4x4", "gpu:l4:1"], utilisation=0.5)


def test_costs_are_the_models(plan):
    assert plan.costs.parameters == 22_050_664
    assert plan.costs.size.tokens == 197
    assert plan.costs.num_examples == 1_268_355
    assert plan.costs.steps_per_epoch == pytest.approx(1238.6, abs=0.1)
    assert plan.costs.total_steps == round(90 * 1_268_355 / 1024)
    assert plan.costs.step_flops == 3 * 1024 * plan.costs.size.forward_flops


def test_attentions_share_grows_with_the_image(plan):
    tokens = [size.tokens for size in plan.costs.growth]
    shares = [size.attention_share for size in plan.costs.growth]
    assert tokens == [197, 442, 785, 1765, 3137]
    assert shares == sorted(shares) and shares[-1] > 4 * shares[0]


def test_time_is_flops_by_the_share_of_the_peak(plan):
    fit = plan.rows[0].fit
    assert fit.step_seconds == plan.costs.step_flops / (16 * 0.5 * 197e12)


def test_a_small_card_is_told_what_to_change(plan):
    slice_row, card = plan.rows
    assert slice_row.fit.fits and not slice_row.changes
    assert not card.fit.fits
    keys = [sorted(change.values) for change in card.changes]
    assert keys == [
        ["data.train.batch_size"],
        ["train.accumulation_steps"],
        ["train.remat"],
    ]
    assert all(
        change.bytes_per_device < card.fit.memory.total for change in card.changes
    )


def test_the_largest_batch_fits_and_one_more_does_not(plan):
    fit = plan.rows[0].fit
    per_image = (fit.memory.activations + fit.memory.images) / (1024 / 16)
    limit = estimate.USABLE * fit.target.device.memory
    still = fit.memory.total - fit.memory.activations - fit.memory.images
    assert fit.largest_batch % 16 == 0
    count = fit.largest_batch / 16
    assert still + count * per_image <= limit < still + (count + 1) * per_image


def test_changes_give_the_bytes_that_a_plan_with_them_gives(plan):
    _, card = plan.rows
    change = next(c for c in card.changes if "train.remat" in c.values)
    config = pretraining()
    config.update_from_flattened_dict(change.values)
    again = make_plan(config, ["gpu:l4:1"])
    assert again.rows[0].fit.memory.total == change.bytes_per_device


def test_text_and_json_say_the_same(plan):
    text, found = as_text(plan), json.loads(json.dumps(as_dict(plan)))
    assert "S/16: 22,050,664 parameters" in text
    assert "gpu:l4:1 has too little memory" in text
    assert "--config.train.remat=" in text
    assert [row["target"] for row in found["targets"]] == ["tpu:v5e:4x4", "gpu:l4:1"]
    assert "bytes_per_device" not in found


def test_one_targets_figures_are_at_the_top():
    found = as_dict(make_plan(pretraining(), ["tpu:v5e:4x4"]))
    assert found["by"] == "formula"
    assert found["bytes_per_device"] == found["targets"][0]["memory"]["total"]
    assert found["flops_per_device"] == found["step_flops"] / 16


def test_without_targets_every_known_device_has_a_row():
    plan = make_plan(pretraining(data__train__batch_size=4))
    faults = {row.name: row.fault for row in plan.rows}
    assert not faults["gpu:rtx4090:1"]
    assert "multiple of the 8 devices" in faults["gpu:h100:8"]
    assert "gpu:h100:8: data.train.batch_size=4" in as_text(plan)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"targets": ["tpu:v9:2x2"]}, "device 'v9' is not known"),
        (
            {"data__train__batch_size": 100},
            {"targets": ["tpu:v5e:4x4"]},
            "data.train.batch_size=100 must be a multiple of the 16 devices",
        ),
        (
            {
                "mesh__fsdp": 3,
                "data__train__batch_size": 960,
                "data__eval__batch_size": 3,
            },
            {"targets": ["tpu:v5e:4x4"]},
            "must multiply to the 16 devices",
        ),
        ({}, {"utilisation": 1.5}, "--utilisation=1.5 must be above 0"),
        ({}, {"num_examples": 0}, "--examples=0 must be 1 or more"),
        ({"data__source": "nowhere"}, {}, "(?s)nowhere.*--examples=N"),
        ({}, {"num_examples": 5}, "model.num_classes must be set"),
        ({}, {"compiles": True}, "--compile needs one --target"),
        (
            {},
            {"compiles": True, "targets": ["gpu:l4:1"]},
            "--compile is for tpu: targets",
        ),
        ({"model__variant": "S/17"}, {}, "model.variant=S/17"),
    ],
)
def test_what_cannot_be_planned_is_refused(changes, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_plan(pretraining(**changes), **arguments)


def test_data_that_is_here_is_counted():
    config = tiny_config()
    assert count_examples(config) == assemble(tiny_config()).inputs.num_examples
    assert config.model.num_classes == 10


def test_examples_stand_in_for_data_that_is_not_here():
    config = pretraining(data__source="nowhere", model__num_classes=7)
    plan = make_plan(config, ["gpu:h100:8"], num_examples=2048)
    assert plan.costs.steps_per_epoch == 2


def test_states_bytes_are_those_of_a_real_one():
    config = tiny_config(
        model__num_classes=10, mesh__fsdp=4, mesh__data=2, train__ema_decay=0.9
    )
    parts = assemble(config)
    state = jax.tree.map(
        lambda leaf: jax.device_put(np.zeros(leaf.shape, leaf.dtype), leaf.sharding),
        parts.state,
    )
    (device, *_) = jax.devices()
    held = sum(
        shard.data.nbytes
        for leaf in jax.tree.leaves(state)
        for shard in leaf.addressable_shards
        if shard.device == device
    )
    planned = planned_parts(config, 1437, 8)
    assert sharded_bytes(planned.state) == held


def test_the_planned_step_is_the_runs():
    """Traced on devices that nobody has, it computes what the run's own step does."""
    config = tiny_config(model__num_classes=10)
    planned, own = planned_parts(config, 1437, 8), assemble(config)
    batch = abstract_batch(own)
    traced = [parts.train_step.trace(own.state, batch) for parts in (planned, own)]
    first, second = (tracing.flops(each.jaxpr) for each in traced)
    assert first == second > 0


def test_step_flops_agree_with_the_compilers_count():
    config = tiny_config(
        model__depth=4, model__width=64, model__mlp_dim=256, model__image_size=(32,)
    )
    parts = assemble(config)
    lowered = parts.train_step.lower(parts.state, abstract_batch(parts))
    products = tracing.flops(
        parts.train_step.trace(parts.state, abstract_batch(parts)).jaxpr
    )
    formula = 16 * estimate.image_flops(parts.config, parts)
    # The first layer has no gradient of its input; the compiler counts all else too.
    assert 0.93 * formula < products <= formula
    assert products < lowered.cost_analysis()["flops"] < 1.25 * formula


@pytest.mark.parametrize("scan", [False, True])
def test_remat_keeps_less_and_tensor_shares_divide(scan):
    spec = resolve("B/16", {})

    def size(**options):
        return activation_bytes(spec, (224, 224), itemsize=2, scan=scan, **options)

    assert size(remat="full") < size(remat="dots") < size()
    assert size() / 4 < size(tensor=4) < size() / 2


def test_memory_grows_with_precision_windows_shrink_it():
    whole = resolve("B/16", {})
    windowed = dataclasses.replace(whole, window_size=7, pool="gap")
    half = activation_bytes(whole, (896, 896), itemsize=2)
    assert activation_bytes(whole, (896, 896), itemsize=4) == 2 * half
    assert activation_bytes(windowed, (896, 896), itemsize=2) < half / 2


def test_accumulation_cuts_activations_and_adds_a_gradient():
    config = pretraining()
    config.model.num_classes = 1000
    parts = planned_parts(config, 1_268_355, 1)
    target = parse_target("gpu:h200:1")
    other = copy.deepcopy(parts.config)
    other.train.accumulation_steps = 4
    plain = estimate.memory_on(parts, parts.config, target)
    cut = estimate.memory_on(parts, other, target)
    assert cut.activations == plain.activations / 4
    assert cut.gradients == 2 * plain.gradients


def test_a_resnet_has_no_formula():
    with pytest.raises(ValueError, match="no formula for the activations of a ResNet"):
        activation_bytes(resolve("R50x1", {}), (224, 224), itemsize=4)


def test_an_abstract_mesh_is_as_a_real_one():
    sizes = {"data": -1, "fsdp": 2, "tensor": 2}
    abstract, real = meshes.abstract_mesh(8, **sizes), meshes.make_mesh(**sizes)
    assert dict(abstract.shape) == dict(real.shape)
    leaf = {"mlp": {"hidden": {"kernel": jax.ShapeDtypeStruct((64, 8), jnp.float32)}}}
    specs = [
        jax.tree.map(lambda where: where.spec, meshes.shardings(leaf, mesh))
        for mesh in (abstract, real)
    ]
    assert specs[0] == specs[1]
    assert meshes.batch_part(abstract) == (0, 1)
