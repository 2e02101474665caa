"""Tests what images weights are for: bare files, and Hugging Face's processors."""

import json

import numpy as np
import pytest
import timm as peer

from tests.convert.test_source import plain
from vit_jax.convert.preprocessing import from_huggingface
from vit_jax.convert.source import decode, read
from vit_jax.convert.target import encode, write
from vit_jax.convert.timm_models import IMAGENET, is_known, pictures_of
from vit_jax.data.preprocess import check, preprocess

MODULES = ("vision_transformer", "deit")


def configs():
    """Full name -> what timm says of it, old names left out."""
    found = {}
    for module in MODULES:
        for name in peer.list_models(module=module):
            found |= peer.models.get_arch_pretrained_cfgs(name)
    return found


def test_timms_names_say_statistics_and_crop():
    """All statistics; the crop to a tenth, and mostly as it is."""
    all_of = configs()
    assert len(all_of) > 300
    crops = []
    for name, config in all_of.items():
        assert is_known(name), name
        said = pictures_of(name)
        for key in ("mean", "std"):
            assert tuple(np.broadcast_to(said[key], 3)) == tuple(
                getattr(config, key)
            ), name
        assert said["interpolation"] == config.interpolation, name
        crops.append(abs(said["crop_fraction"] - config.crop_pct))
    assert max(crops) < 0.126 and np.mean(np.array(crops) < 1e-6) > 0.85


def test_a_bare_file_of_timms_has_what_its_name_says():
    arrays = encode(plain(), "timm").arrays
    plainly = decode(arrays, num_heads=2)
    assert plainly.preprocessing["mean"] == [0.5] * 3
    (note,) = [n for n in plainly.notes if "what images it takes" in n]
    assert "mean 0.5, std 0.5, center crop of 0.9, bicubic, as most models" in note
    assert "mean= and std= say otherwise" in note
    said = decode(arrays, num_heads=2, mean=IMAGENET[0], std=[0.2])
    assert said.preprocessing["mean"] == list(IMAGENET[0])
    assert said.preprocessing["std"] == [0.2] * 3
    assert any("mean and std as given" in note for note in said.notes)


def test_a_distilled_file_has_imagenets_statistics():
    weights = plain(pool="distilled", num_registers=1)
    found = decode(encode(weights, "timm").arrays, num_heads=2)
    assert found.preprocessing["mean"] == list(IMAGENET[0])


def test_torchvisions_files_have_imagenets_statistics_and_a_crop():
    arrays = encode(plain(), "torchvision").arrays
    found = decode(arrays).preprocessing
    assert (found["mean"], found["std"]) == tuple(map(list, IMAGENET))
    assert found["resize"] == "center" and found["crop_fraction"] == 1.0
    name = "encoder.pos_embedding"
    arrays[name] = np.zeros((1, 1 + 14 * 14, 128), "f")
    found = decode(arrays).preprocessing
    assert (found["crop_fraction"], found["interpolation"]) == (0.875, "bilinear")


def test_grey_files_have_statistics_of_one_number():
    arrays = encode(plain(), "torchvision").arrays
    arrays["conv_proj.weight"] = arrays["conv_proj.weight"][:, :1]
    found = decode(arrays).preprocessing
    assert found["channels"] == 1 and len(found["mean"]) == 1
    assert 0.4 < found["mean"][0] < 0.5


CONFIG = {"model_type": "vit", "image_size": 224}
CROPPED = {"do_center_crop": True, "crop_size": {"height": 224, "width": 224}}


@pytest.mark.parametrize(
    ("config", "processor", "expected"),
    [
        # DINOv2 as published: the table is for 518 pixels, the crop for 224.
        (
            {"model_type": "dinov2", "image_size": 518},
            CROPPED | {"size": {"shortest_edge": 256}, "resample": 3},
            {"crop_fraction": 0.875, "resize": "center", "interpolation": "bicubic"},
        ),
        # DeiT as published.
        (
            CONFIG,
            CROPPED | {"size": {"height": 256, "width": 256}},
            {"crop_fraction": 0.875, "resize": "center"},
        ),
        (CONFIG, CROPPED | {"size": 256, "crop_size": 224}, {"crop_fraction": 0.875}),
        (CONFIG, CROPPED, {"crop_fraction": 1.0, "resize": "center"}),
        (CONFIG, CROPPED | {"size": {"shortest_edge": 200}}, {"crop_fraction": 1.0}),
        (CONFIG, {"size": {"height": 224, "width": 224}}, {"resize": "stretch"}),
        (CONFIG, {"size": {"shortest_edge": 224}}, {"resize": "center"}),
        (CONFIG, {"do_normalize": False}, {"mean": [0.0] * 3, "std": [1.0] * 3}),
        (CONFIG, {"do_rescale": False, "image_mean": [127.5] * 3}, {"mean": [0.5] * 3}),
        (CONFIG, {"rescale_factor": 2 / 255}, {"mean": [0.25] * 3, "std": [0.25] * 3}),
        (CONFIG, {"resample": 1}, {"interpolation": "bicubic"}),
        (CONFIG, None, {"mean": [0.5] * 3, "resize": "stretch"}),
        (
            CONFIG | {"model_type": "deit"},
            None,
            {"mean": list(IMAGENET[0]), "crop_fraction": 0.875},
        ),
    ],
)
def test_hugging_faces_processors_are_read(config, processor, expected):
    preprocessing, notes = from_huggingface(config, processor)
    check(preprocessing)
    found = {name: preprocessing[name] for name in expected}
    assert found == expected
    pixels = np.random.default_rng(0).integers(0, 255, (300, 400, 3), np.uint8)
    side = config["image_size"]
    assert preprocess(pixels, preprocessing).shape == (side, side, 3)
    if processor is None or "resample" in processor:
        assert "images are made with" in notes[-1]


@pytest.mark.parametrize(
    ("config", "processor", "message"),
    [
        ({"image_size": "big"}, {}, "config.json has image_size='big'; it must be pi"),
        (CONFIG, {"size": {"longest": 3}}, "preprocessor_config.json has size="),
    ],
)
def test_sizes_that_are_none_are_refused(config, processor, message):
    with pytest.raises(ValueError, match=message):
        from_huggingface(config, processor)


def test_a_folder_without_a_processor_says_what_is_taken(tmp_path):
    write(plain(), tmp_path / "x", "huggingface")
    (tmp_path / "x" / "preprocessor_config.json").unlink()
    weights = read(tmp_path / "x")
    assert "the folder has no preprocessor_config.json" in weights.notes


def test_a_pooler_of_another_width_or_activation(tmp_path):
    weights = plain(num_classes=0, representation_size=24)
    weights = weights.__class__(**(vars(weights) | {"class_names": ()}))
    write(weights, tmp_path / "x", "huggingface")
    file = tmp_path / "x" / "config.json"
    config = json.loads(file.read_text())
    assert config["pooler_output_size"] == 24
    from transformers import ViTModel

    _, info = ViTModel.from_pretrained(tmp_path / "x", output_loading_info=True)
    assert not any(info.values())
    assert read(tmp_path / "x").spec.representation_size == 24
    file.write_text(json.dumps(config | {"pooler_act": "relu"}))
    with pytest.raises(ValueError, match="pooler_act='relu'; it must be tanh"):
        read(tmp_path / "x")
