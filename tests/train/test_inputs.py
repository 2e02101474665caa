"""Tests vit_jax/train/inputs.py."""

import itertools
import json

import numpy as np
import pytest
from ml_collections import ConfigDict

from tests.data.pictures import write_folder
from vit_jax.config import KEYS, default_config
from vit_jax.data.preprocess import preprocess
from vit_jax.data.presets import CUSTOM, PRESETS
from vit_jax.train.augment import (
    augment_values,
    mixing_values,
    train_transform,
    with_preset,
)
from vit_jax.train.inputs import open_evaluation, open_inputs


def digits_config() -> ConfigDict:
    config = default_config()
    config.data.source = "digits"
    config.model.image_size = (8,)
    config.model.channels = 1
    config.augment.crop = "shift"
    config.augment.shift = 1
    config.data.train.batch_size = 16
    config.data.eval.batch_size = 100
    return config


def test_digits_have_a_fixed_stratified_split():
    inputs = open_inputs(digits_config())
    assert inputs.num_examples == 1437
    assert inputs.class_names == tuple("0123456789")
    batches = list(inputs.eval_batches())
    labels = np.concatenate([b["label"][b["weight"] == 1] for b in batches])
    assert len(labels) == 360
    assert np.ptp(np.bincount(labels)) <= 2
    other = digits_config()
    other.seed = 7
    again = np.concatenate([b["image"] for b in open_inputs(other).eval_batches()])
    np.testing.assert_array_equal(again, np.concatenate([b["image"] for b in batches]))


def test_training_sees_other_images_than_evaluation():
    config = digits_config()
    config.augment.shift = 0
    config.augment.flip = 0.0
    inputs = open_inputs(config)
    batches = itertools.islice(inputs.train_batches(0), 90)
    trained = {image.tobytes() for b in batches for image in b["image"]}
    judged = {
        image.tobytes()
        for b in inputs.eval_batches()
        for image in b["image"][b["weight"] == 1]
    }
    assert len(trained) > 1400 and not trained & judged


def test_preprocessing_makes_of_a_file_what_evaluation_makes_of_it(tmp_path):
    for split in ("train", "test"):
        write_folder(tmp_path / split, {"a": 2, "b": 1})
    config = digits_config()
    config.data.source = str(tmp_path)
    config.model.channels = 3
    config.data.eval.resize = "center"
    inputs = open_inputs(config)
    (batch,) = inputs.eval_batches()
    stored = json.loads(json.dumps(inputs.preprocessing))
    data = (tmp_path / "test" / "b" / "000.png").read_bytes()
    np.testing.assert_array_equal(preprocess(data, stored), batch["image"][2])
    assert stored["mean"] == [0.5, 0.5, 0.5]


def test_a_fraction_keeps_the_classes_in_proportion():
    config = digits_config()
    config.data.train.fraction = 0.1
    inputs = open_inputs(config)
    assert inputs.num_examples == 144
    batches = itertools.islice(inputs.train_batches(0), 9)
    labels = np.concatenate([b["label"] for b in batches])
    assert np.ptp(np.bincount(labels)) <= 2
    assert open_inputs(digits_config()).num_examples == 1437


def test_evaluation_may_read_elsewhere_and_uses_the_training_classes(tmp_path):
    write_folder(tmp_path / "first" / "train", {"a": 1, "b": 1, "c": 1})
    write_folder(tmp_path / "second" / "val", {"c": 2, "b": 1})
    config = digits_config()
    config.data.source = str(tmp_path / "first")
    config.data.eval.source = str(tmp_path / "second")
    config.data.eval.split = "val"
    inputs = open_inputs(config)
    (batch,) = inputs.eval_batches()
    np.testing.assert_array_equal(batch["label"][:3], [1, 2, 2])
    (alone,) = open_evaluation(config, ("c", "b")).batches()
    np.testing.assert_array_equal(alone["label"][:3], [1, 0, 0])


def test_a_class_that_only_evaluation_has_is_refused(tmp_path):
    write_folder(tmp_path / "train", {"a": 1, "b": 1})
    write_folder(tmp_path / "test", {"a": 1, "z": 1})
    config = digits_config()
    config.data.source = str(tmp_path)
    message = "data.eval.split=test: .*classes that the training data lacks: z"
    with pytest.raises(ValueError, match=message):
        open_inputs(config)


def test_a_missing_source_is_named_with_its_key(tmp_path):
    config = digits_config()
    config.data.source = str(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="data.source=.*nowhere"):
        open_inputs(config)
    config = digits_config()
    config.data.eval.split = "val"
    with pytest.raises(ValueError, match="data.eval.split=val: digits has the splits"):
        open_inputs(config)


def test_skipped_images_are_counted(tmp_path):
    for split in ("train", "test"):
        write_folder(tmp_path / split, {"a": 3, "b": 3})
    (tmp_path / "train" / "a" / "001.png").write_bytes(b"")
    config = digits_config()
    config.data.source = str(tmp_path)
    config.model.channels = 3
    config.data.train.batch_size = 6
    with pytest.raises(ValueError, match="001.png is unreadable: the file is empty"):
        next(open_inputs(config).train_batches(0))
    config.data.bad_images = "skip"
    inputs = open_inputs(config)
    batches = list(itertools.islice(inputs.train_batches(0), 3))
    assert [b["weight"].sum() for b in batches] == [5, 5, 5]
    assert inputs.skipped == {str(tmp_path / "train" / "a" / "001.png"): 3}


def test_faults_of_the_data_keys_are_reported_together():
    config = digits_config()
    config.data.mean = (0.1, 0.2, 0.3)
    config.augment.crop_area = (0.9, 0.1)
    with pytest.raises(ValueError) as caught:
        open_inputs(config)
    faults = str(caught.value).splitlines()
    assert [fault.split("=")[0] for fault in faults] == [
        "data.mean",
        "augment.crop_area",
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_decides_its_keys(name):
    config = digits_config()
    config.augment.preset = name
    open_inputs(config)
    values = augment_values(config)
    assert {key: values[key] for key in PRESETS[name]} == PRESETS[name]
    assert set(mixing_values(config).items()) <= set(values.items())
    steps = train_transform(config).steps
    assert len(steps) == (PRESETS[name]["randaugment_layers"] > 0)


def test_every_preset_can_be_chosen_by_its_key():
    (key,) = (k for k in KEYS if k.name == "augment.preset")
    assert set(key.choices) == {"custom", *PRESETS}
    names = {k.name for k in KEYS}
    assert all(
        f"augment.{name}" in names for values in PRESETS.values() for name in values
    )


def test_a_key_that_is_set_counts_more_than_the_preset_default_or_not():
    config = digits_config()
    config.augment.preset = "deit"
    config.augment.mixup = 0.7
    config.augment.repeats = CUSTOM["repeats"]
    values = augment_values(config)
    assert (values["mixup"], values["repeats"]) == (0.7, 1)
    assert values["cutmix"] == PRESETS["deit"]["cutmix"]


def test_a_config_with_its_preset_in_place_stays_as_it_is():
    config = digits_config()
    config.augment.preset = "deit"
    filled = with_preset(config)
    assert filled.augment.preset == "deit"
    assert filled.augment.to_dict() == augment_values(config)
    assert with_preset(filled).to_dict() == filled.to_dict()
    assert config.augment.mixup is None


def test_the_keys_without_a_preset_are_those_that_start_unset():
    unset = {k.name.partition(".")[2] for k in KEYS if k.starts_unset}
    decided = {key for values in PRESETS.values() for key in values}
    assert decided == set(CUSTOM) == unset & set(augment_values(digits_config()))


def test_jitter_and_randaugment_come_in_this_order():
    config = digits_config()
    config.augment.jitter_hue = 0.1
    config.augment.randaugment_layers = 2
    names = [type(step).__name__ for step in train_transform(config).steps]
    assert names == ["ColorJitter", "RandAugment"]
