"""Tests vit_jax/convert/huggingface.py against transformers, as folders both ways."""

import json
import logging

import numpy as np
import pytest
import transformers

from tests.convert.ours import assert_same_arrays, logits_of, put
from tests.convert.peers import arrays_of, drawn, images_of, outputs
from vit_jax.convert.files import read_arrays
from vit_jax.convert.layout import build
from vit_jax.convert.source import read
from vit_jax.convert.target import encode, write

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": [32, 48],
    "patch_size": 16,
    "layer_norm_eps": 1e-5,
    "id2label": {0: "cat", 1: "dog", 2: "bird"},
}
WIDE = SIZES | {"intermediate_size": 48}
# transformers' DINOv2 knows squares alone.
SQUARE = SIZES | {"image_size": 32}
MODELS = {
    "vit": ("ViT", "ForImageClassification", WIDE),
    "vit tanh": ("ViT", "ForImageClassification", WIDE | {"hidden_act": "gelu_new"}),
    "vit without qkv bias": ("ViT", "ForImageClassification", WIDE | {"qkv_bias": 0}),
    "vit features": ("ViT", "Model", WIDE),
    "deit": ("DeiT", "ForImageClassification", WIDE),
    "deit teacher": ("DeiT", "ForImageClassificationWithTeacher", WIDE),
    "dinov2": ("Dinov2", "ForImageClassification", SQUARE),
    "dinov2 gated": ("Dinov2", "Model", SQUARE | {"use_swiglu_ffn": True}),
    "dinov2 registers": ("Dinov2WithRegisters", "ForImageClassification", SQUARE),
}


def peer_of(name):
    """transformers' model, drawn anew."""
    start, kind, sizes = MODELS[name]
    sizes = {k: bool(v) if k == "qkv_bias" else v for k, v in sizes.items()}
    config = getattr(transformers, f"{start}Config")(**sizes)
    return drawn(lambda: getattr(transformers, start + kind)(config))


@pytest.fixture
def folder(request, tmp_path):
    """(transformers' model, the folder that it was saved to)."""
    peer = peer_of(request.param)
    peer.save_pretrained(tmp_path / "theirs")
    return peer, tmp_path / "theirs"


def loaded_by(name, place, caplog):
    """transformers' model from our folder; nothing may be missing, left or said."""
    start, kind, _ = MODELS[name]
    with caplog.at_level(logging.WARNING):
        model, info = getattr(transformers, start + kind).from_pretrained(
            place, output_loading_info=True
        )
    assert not any(info.values()), info
    assert not [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    return model.eval()


@pytest.mark.parametrize(
    ("name", "folder"), [(n, n) for n in MODELS], indirect=["folder"]
)
def test_both_ways_give_the_same_model(name, folder, tmp_path, caplog):
    """Case 30: no key is missing or left over."""
    peer, place = folder
    weights = read(place)
    assert weights.layout == "huggingface"
    images = images_of(weights.preprocessing["image_size"])
    theirs = outputs(peer, images)
    assert np.ptp(theirs) > 0.1
    np.testing.assert_allclose(logits_of(weights, images), theirs, atol=1e-4)

    write(weights, tmp_path / "ours", "huggingface")
    made = loaded_by(name, tmp_path / "ours", caplog)
    np.testing.assert_allclose(outputs(made, images), theirs, atol=1e-6)
    back = read(tmp_path / "ours")
    assert build(back.spec) == build(weights.spec)
    assert_same_arrays(back.params, weights.params)
    if "Model" not in MODELS[name][1]:
        assert back.class_names == weights.class_names == ("cat", "dog", "bird")


@pytest.mark.parametrize(
    ("name", "folder"),
    [(n, n) for n in ("vit", "deit teacher", "dinov2 gated")],
    indirect=["folder"],
)
def test_names_that_5x_has_in_memory_are_read(name, folder, tmp_path):
    """Case 30: both numberings of names."""
    peer, place = folder
    expected = read(place)
    put(place / "model.safetensors", "safetensors", arrays_of(peer))
    assert_same_arrays(read(place).params, expected.params)


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_files_have_the_names_of_4x(folder):
    _, place = folder
    arrays = encode(read(place), "huggingface").arrays
    assert_same_arrays(arrays, read_arrays(place / "model.safetensors").arrays)
    assert "vit.encoder.layer.1.attention.attention.query.weight" in arrays


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_epsilon_and_size_are_written_and_another_size_is_refused(folder, tmp_path):
    """Case 32: the trained size goes along; and case 29: epsilon."""
    _, place = folder
    write(read(place), tmp_path / "ours", "huggingface")
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert config["layer_norm_eps"] == 1e-5 and config["image_size"] == [32, 48]
    assert config["hidden_act"] == "gelu" and config["id2label"]["1"] == "dog"
    made = transformers.ViTForImageClassification.from_pretrained(tmp_path / "ours")
    with pytest.raises(ValueError, match="doesn't match model"):
        outputs(made, images_of((48, 48)))


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
@pytest.mark.parametrize("resize", ["stretch", "center"])
def test_preprocessing_survives_and_maps_bytes_to_plus_and_minus_one(
    folder, resize, tmp_path
):
    """Case 33: numbers of the images go along."""
    _, place = folder
    weights = read(place)
    weights.preprocessing.update(resize=resize, interpolation="bicubic")
    weights.preprocessing.update(crop_fraction=0.5 if resize == "center" else 1.0)
    write(weights, tmp_path / "ours", "huggingface")
    assert read(tmp_path / "ours").preprocessing == weights.preprocessing
    file = tmp_path / "ours" / "preprocessor_config.json"
    config = json.loads(file.read_text())
    processor = getattr(transformers, config["image_processor_type"]).from_dict(config)
    for rows, columns in ((64, 64), (40, 100)):
        pixels = np.zeros((rows, columns, 3), np.uint8)
        pixels[:, columns // 2 :] = 255
        out = processor(pixels, return_tensors="np")["pixel_values"]
        assert out.shape == (1, 3, 32, 48)
        assert (out[..., 0] == -1).all() and (out[..., -1] == 1).all()


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_class_names_may_stand_the_other_way_round(folder):
    """`label2id` without `id2label`; its order counts for nothing."""
    file = folder[1] / "config.json"
    config = json.loads(file.read_text())
    del config["id2label"]
    config["label2id"] = {"bird": 2, "cat": 0, "dog": 1}
    file.write_text(json.dumps(config))
    weights = read(folder[1])
    assert weights.class_names == ("cat", "dog", "bird")
    assert weights.spec.num_classes == 3


@pytest.mark.parametrize("folder", ["vit features"], indirect=True)
def test_a_pooler_is_the_pre_logits(folder):
    weights = read(folder[1])
    assert weights.spec.representation_size == 32 and weights.spec.num_classes == 0
    assert "pre_logits/kernel" in weights.params


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_only_the_pooler_of_a_bare_model_is_new(folder, tmp_path):
    """Case 31: a classifier has none, and docs/weights.md says so."""
    write(read(folder[1]), tmp_path / "ours", "huggingface")
    _, info = transformers.ViTModel.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    pooler = {"pooler.dense.weight", "pooler.dense.bias"}
    assert set(info["missing_keys"]) == pooler
    assert set(info["unexpected_keys"]) <= {"classifier.weight", "classifier.bias"}


@pytest.mark.parametrize("folder", ["dinov2 registers"], indirect=True)
def test_the_fold_of_the_class_slot_is_said(folder):
    notes = read(folder[1]).notes
    assert any("class token's position" in note for note in notes)
    assert any("mask token" in note for note in notes)


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model_type", "bert", "model_type='bert'; it must be one of vit, deit"),
        ("hidden_act", "relu", "hidden_act='relu'; it must be one of gelu"),
        ("hidden_size", None, "config.json lacks 'hidden_size'"),
    ],
)
def test_other_configs_are_refused(folder, key, value, message):
    file = folder[1] / "config.json"
    config = json.loads(file.read_text())
    config.pop(key) if value is None else config.update({key: value})
    file.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        read(folder[1])


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_incomplete_folders_are_refused(folder, tmp_path):
    place = folder[1]
    weights = read(place)
    arrays = read_arrays(place / "model.safetensors").arrays
    put(tmp_path / "bare.safetensors", "safetensors", arrays)
    with pytest.raises(ValueError, match="its config.json must lie beside it"):
        read(tmp_path / "bare.safetensors")
    assert_same_arrays(read(place / "model.safetensors").params, weights.params)
    (place / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="has a config.json and no weights"):
        read(place)
    cut = {n: a for n, a in arrays.items() if "intermediate.dense.bias" not in n}
    put(place / "model.safetensors", "safetensors", cut)
    with pytest.raises(ValueError, match="the weights have no vit.encoder.layer.0.int"):
        read(place)


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
def test_large_models_lie_in_several_files(folder):
    place = folder[1]
    expected = read(place)
    arrays = read_arrays(place / "model.safetensors").arrays
    (place / "model.safetensors").unlink()
    names, shards = list(arrays), {}
    for number, part in enumerate((names[:9], names[9:])):
        file = f"model-{number}.safetensors"
        put(place / file, "safetensors", {n: arrays[n] for n in part})
        shards |= dict.fromkeys(part, file)
    index = place / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    assert_same_arrays(read(place).params, expected.params)


@pytest.mark.parametrize("folder", ["vit"], indirect=True)
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"pool": "gap", "norm": "rms"},
            "(?s)vit can't.*norm='rms'.*pool='gap'",
        ),
        ({"representation_size": 8}, "representation_size=8 must be 0"),
        ({"num_registers": 2}, "deit can't(?s:.*)num_registers=2 must be 1"),
        ({"pool": "cls_gap"}, "layer_scale=0.0 must be more than 0"),
        ({"mlp": "swiglu", "mlp_dim": 50}, "mlp_dim=50 must be what a whole"),
        ({"layer_scale": 0.1, "mlp_dim": 50}, "mlp_dim=50 must be a multiple"),
        ({"layer_scale": 0.1, "prefix_positions": False}, "must go with registers"),
        ({"layer_scale": 0.1, "num_registers": 1}, "must go without registers"),
    ],
)
def test_what_transformers_lacks_is_refused(folder, fields, message):
    weights = read(folder[1])
    spec = weights.spec.__class__(**(weights.spec.__dict__ | fields))
    with pytest.raises(ValueError, match=message):
        encode(weights.__class__(**(weights.__dict__ | {"spec": spec})), "huggingface")


@pytest.mark.parametrize("folder", ["dinov2"], indirect=True)
def test_dinov2_of_a_rectangle_is_refused(folder):
    weights = read(folder[1])
    weights.preprocessing["image_size"] = [32, 48]
    with pytest.raises(ValueError, match="dinov2 takes squares.*32 x 48"):
        encode(weights, "huggingface")
