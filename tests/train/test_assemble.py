"""Faults of the whole config, the data and the devices, found before compiling."""

import pytest

from tests.train.digits import tiny_config
from vit_jax import config as configuration
from vit_jax import trees
from vit_jax.models.vit import VisionTransformer
from vit_jax.train.assemble import assemble
from vit_jax.train.state import create_state


def faults(config, **arguments):
    with pytest.raises(ValueError) as caught:
        assemble(config, **arguments)
    first, *numbered = str(caught.value).splitlines()
    if not numbered:
        return [first]
    assert first == f"{len(numbered)} faults:"
    return [line.split(". ", 1)[1] for line in numbered]


def test_a_sound_config_gives_parts_with_the_unset_filled_in():
    config = tiny_config()
    parts = assemble(config)
    assert parts.config.model.num_classes == 10
    assert config.model.num_classes is None
    assert parts.image_shape == (8, 8, 1)
    assert parts.total_steps == 6
    assert parts.num_params == 2266


def test_epochs_become_steps():
    config = tiny_config(schedule__total_steps=None, schedule__total_epochs=2.0)
    assert assemble(config).total_steps == round(2 * 1437 / 16)


def test_linear_scaling_sets_the_peak():
    config = tiny_config(schedule__base_batch_size=256)
    assert assemble(config).peak_learning_rate == 1e-3 * 16 / 256


def test_all_faults_come_together():
    config = tiny_config(
        model__num_heads=3,
        data__train__batch_size=100,
        data__eval__batch_size=3,
        schedule__warmup_steps=500,
        optimizer__beta1=2.0,
    )
    found = faults(config, faults=["model.varient is not a configuration key"])
    assert found == [
        "model.varient is not a configuration key",
        "optimizer.beta1=2.0 must be a number from 0 to 0.9999.",
        "model.width=16 must be a multiple of num_heads=3.",
        "schedule.warmup_steps=500 must be less than the total of 6 steps; 5 to 10 % "
        "of it is usual.",
        "data.train.batch_size=100 must be a multiple of the 8 devices on mesh axes "
        "data, fsdp; take 96 or 104.",
        "data.eval.batch_size=3 must be a multiple of the 8 devices on mesh axes data, "
        "fsdp; take 8.",
    ]


@pytest.mark.parametrize(
    "key", [key.name for key in configuration.KEYS if key.type is str]
)
def test_nonsense_for_any_text_key_is_a_fault_of_that_key(key):
    found = faults(tiny_config(**{key: "nonsense"}))
    assert any(key in fault for fault in found), found


def test_faults_of_model_and_schedule_come_together():
    config = tiny_config(model__num_heads=3, schedule__warmup_steps=500)
    assert faults(config) == [
        "model.width=16 must be a multiple of num_heads=3.",
        "schedule.warmup_steps=500 must be less than the total of 6 steps; 5 to 10 % "
        "of it is usual.",
    ]


def test_an_image_that_is_no_multiple_of_the_patch_names_the_nearest():
    (fault,) = faults(tiny_config(model__image_size=(8, 10)))
    assert fault.startswith("model.image_size=(8, 10) must be a multiple of")
    assert "8 or 12 columns" in fault


@pytest.mark.parametrize("variant", ["R50x1", "R+Ti/16", "S/16"])
def test_a_variant_of_each_kind_can_be_trained(variant):
    unset = dict.fromkeys(
        ("width", "depth", "num_heads", "mlp_dim", "patch_size", "dropout"), None
    )
    keys = {f"model__{name}": value for name, value in unset.items()}
    config = tiny_config(model__variant=variant, model__image_size=(32,), **keys)
    assert assemble(config).num_params > 5_000_000


@pytest.mark.parametrize(("written", "meant"), [("B16", "B/16"), ("b/16", "B/16")])
def test_an_unknown_variant_names_the_near_one(written, meant):
    (fault,) = faults(tiny_config(model__variant=written))
    assert fault.startswith(
        f"model.variant={written}: model '{written}' does not exist"
    )
    assert f"did you mean '{meant}'?" in fault


def test_more_classes_in_the_data_than_in_the_model():
    (fault,) = faults(tiny_config(model__num_classes=7))
    assert fault.startswith("model.num_classes=7 must be at least the 10 classes of")


def test_more_outputs_than_classes_are_allowed():
    assert assemble(tiny_config(model__num_classes=12)).config.model.num_classes == 12


def test_missing_and_empty_data_are_named(tmp_path):
    (fault,) = faults(tiny_config(data__source=str(tmp_path / "absent")))
    assert "absent" in fault
    (tmp_path / "train" / "cat").mkdir(parents=True)
    (fault,) = faults(tiny_config(data__source=str(tmp_path)))
    assert "holds no images" in fault


def test_mesh_sizes_that_do_not_fit_the_devices():
    (fault,) = faults(tiny_config(mesh__fsdp=3))
    assert "must multiply to the 8 devices" in fault


def test_micro_batches_must_divide_what_a_device_has():
    (fault,) = faults(tiny_config(train__accumulation_steps=3))
    assert fault == (
        "data.train.batch_size=16 must be a multiple of the 8 devices on mesh axes "
        "data, fsdp times train.accumulation_steps=3; take 24."
    )


def test_optimizer_faults_name_their_keys_beside_others():
    config = tiny_config(
        optimizer__decay_convention="gradient", data__train__batch_size=100
    )
    first, second = faults(config)
    assert first.startswith("optimizer.decay_convention=gradient does not go with")
    assert second.startswith("data.train.batch_size=100 must be a multiple")


def test_a_pattern_that_matches_nothing_is_named_with_its_key():
    (fault,) = faults(tiny_config(train__freeze=("haed/.*",)))
    assert fault.startswith("train.freeze: pattern 'haed/.*' matches none of the")


def test_the_model_is_traced_once_until_the_step(monkeypatch):
    traces = []
    call = VisionTransformer.__call__

    def noted(self, *arguments, **keywords):
        traces.append(arguments)
        return call(self, *arguments, **keywords)

    monkeypatch.setattr(VisionTransformer, "__call__", noted)
    parts = assemble(tiny_config())
    create_state(parts.init, parts.optimizer, parts.state, seed=0)
    assert len(traces) == 1


def test_what_a_model_says_of_its_fields_is_said_of_keys():
    scan = {"train__scan": True, "model__window_size": 1, "model__global_every": 2}
    assert faults(tiny_config(model__depth=3, **scan)) == [
        "train.scan=True needs depth=3 to be a multiple of global_every=2."
    ]
    (fault,) = faults(tiny_config(model__variant="R50x1"))
    assert fault.startswith("model: model 'R50x1' has no keyword")


def test_forms_of_blocks_and_how_they_run_are_keys():
    config = tiny_config(
        model__depth=2,
        model__num_registers=3,
        model__layer_scale=0.1,
        model__qk_norm=True,
        model__mlp="swiglu",
        train__scan=True,
        train__remat="full",
    )
    parts = assemble(config)
    assert (parts.model.encoder.scan, parts.model.encoder.remat) == (True, "full")
    assert (parts.spec.num_registers, parts.spec.layer_scale) == (3, 0.1)
    names = trees.flatten(parts.state.params)
    assert "prefix/registers" in names
    assert "encoder/block_1/mlp/gate/kernel" in names
    config = tiny_config(model__stem="resnet", model__stem_units=(1, 1))
    config.model.patch_size = 1
    assert "stem/stages/stage_1_unit_0/conv1/kernel" in trees.flatten(
        assemble(config).state.params
    )
