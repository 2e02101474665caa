"""Tests vit_jax/models/variants.py and the exact size of every model in it."""

import jax
import jax.numpy as jnp
import pytest

import vit_jax
from vit_jax import trees
from vit_jax.models.flops import count_parameters
from vit_jax.models.variants import (
    VARIANTS,
    as_overrides,
    different_fields,
    list_models,
    nearest,
    resolve,
)

# Parameters at 224 px with 1,000 classes. Those of the original code are what its
# models_test.py asserts; g/14 and G/14 are timm's giant and gigantic, R50x1, R101x1
# and R152x2 its resnetv2_*_bit.
COUNTS = {
    "Ti/32": 6_131_560,
    "Ti/16": 5_717_416,
    "Ti/14": 5_694_376,
    "Ti/8": 5_719_720,
    "S/32": 22_878_952,
    "S/16": 22_050_664,
    "S/14": 22_004_584,
    "S/8": 22_055_272,
    "B/32": 88_224_232,
    "B/16": 86_567_656,
    "B/14": 86_475_496,
    "B/8": 86_576_872,
    "L/32": 306_535_400,
    "L/16": 304_326_632,
    "L/14": 304_203_752,
    "L/8": 304_338_920,
    "H/32": 634_960_360,
    "H/16": 632_199_400,
    "H/14": 632_045_800,
    "H/8": 632_214_760,
    "g/32": 1_015_817_448,
    "g/16": 1_012_780_392,
    "g/14": 1_012_611_432,
    "g/8": 1_012_797_288,
    "G/32": 1_848_229_608,
    "G/16": 1_844_640_360,
    "G/14": 1_844_440_680,
    "G/8": 1_844_660_328,
    "R+Ti/16": 6_337_704,
    "R26+S/32": 36_431_912,
    "R26+B/32": 101_383_976,
    "R50+B/16": 98_659_112,
    "R50+L/32": 328_994_856,
    "R50x1": 25_549_352,
    "R101x1": 44_541_480,
    "R152x2": 236_335_208,
}
# One of each size; the others differ in the stem alone, and `make test-all` has them.
QUICK = {
    "Ti/16",
    "S/16",
    "L/16",
    "H/14",
    "g/14",
    "R+Ti/16",
    "R26+S/32",
    "R50+B/16",
    "R50x1",
}


TESTING = {"width": 10, "depth": 1, "num_heads": 2, "mlp_dim": 10}
FORMS = {
    "mlp": "swiglu",
    "norm": "rms",
    "first_norm": True,
    "final_norm": "pooled",
    "qkv_bias": False,
    "mlp_bias": False,
    "qk_norm": True,
    "layer_scale": 1e-5,
    "num_registers": 4,
    "prefix_positions": False,
    "pool": "map",
    "class_token": True,
}


def shapes_of(name, image_shape=(224, 224), **overrides):
    """The parameter shapes of a model, without computing anything."""
    model = vit_jax.create_model(name, **overrides)
    images = jax.ShapeDtypeStruct((1, *image_shape, 3), jnp.float32)
    return jax.eval_shape(model.init, jax.random.key(0), images)["params"]


@pytest.mark.parametrize("name", COUNTS)
def test_exact_count_by_formula(name):
    assert (
        count_parameters(resolve(name, {"num_classes": 1000}), (224, 224))
        == COUNTS[name]
    )


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in COUNTS
    ],
)
def test_exact_count_of_the_tree(name):
    assert trees.count(shapes_of(name, num_classes=1000)) == COUNTS[name]


def test_every_variant_is_counted():
    assert set(COUNTS) | {"cifar10_tiny", "digits_tiny"} == set(VARIANTS)


def test_seed_model_has_its_exact_count():
    count = trees.count(shapes_of("cifar10_tiny", (32, 32)))
    assert count == 142_026
    assert count_parameters(resolve("cifar10_tiny", {}), (32, 32)) == count


@pytest.mark.parametrize(
    ("name", "overrides", "count"),
    [
        ("S/16", {"pool": "gap"}, 22_049_896),
        ("S/32", {"pool": "gap"}, 22_878_184),
        ("B/16", {"pool": "gap"}, 86_566_120),
        ("B/32", {"pool": "gap"}, 88_222_696),
        ("B/16", {"num_classes": 21843, "representation_size": 768}, 103_186_515),
        ("L/16", {"num_classes": 21843, "representation_size": 1024}, 326_740_307),
        ("B/16", TESTING, 21_390),
        ("B/16", {**TESTING, "pool": "gap"}, 21_370),
        ("S/16", {"depth": 2, **FORMS}, None),
        ("S/16", {"stem": "conv", "position": "learned_2d", "pool": "none"}, None),
        ("Ti/16", {"position": "relative", "window_size": 4, "global_every": 3}, None),
        ("Ti/16", {"position": "rope", "num_registers": 4, "pool": "gap"}, None),
        ("S/16", {"depth": 2, "inner_norm": True, "pool": "cls_gap"}, None),
        ("S/16", {"stem_norm": True, "pool": "distilled", "num_registers": 1}, None),
        ("S/16", {"depth": 1, "mlp": "swiglu", "inner_norm": True}, None),
        ("R50+L/32", {"width": 2048, "depth": 1, "stem_projection": False}, None),
    ],
)
def test_formula_counts_the_tree_in_other_forms(name, overrides, count):
    overrides = {"num_classes": 1000, **overrides}
    counted = trees.count(shapes_of(name, **overrides))
    assert counted == count_parameters(resolve(name, overrides), (224, 224))
    assert count is None or counted == count


def test_list_models_takes_a_glob():
    assert list_models("B/*") == ["B/32", "B/16", "B/14", "B/8"]
    assert list_models() == list(VARIANTS)
    assert vit_jax.list_models("*tiny") == ["cifar10_tiny", "digits_tiny"]
    assert list_models("nothing*") == []


def test_none_means_the_variants_own_value():
    assert resolve("L/16", {"dropout": None}).dropout == 0.1
    assert resolve("L/16", {"dropout": 0.0}).dropout == 0.0


def test_unknown_names_are_refused_with_a_near_one():
    with pytest.raises(
        ValueError, match="model 'b/16' does not exist; did you mean 'B"
    ):
        resolve("b/16", {})
    with pytest.raises(ValueError, match="keyword 'num_class'; did you mean 'num_clas"):
        resolve("B/16", {"num_class": 10})
    with pytest.raises(ValueError, match="model 'R50x1' has no keyword 'pool'"):
        resolve("R50x1", {"pool": "gap"})
    assert resolve("R50x1", {"pool": None}) == resolve("R50x1", {})
    with pytest.raises(
        ValueError, match="model 'zzz' does not exist. There are: Ti/32"
    ) as raised:
        resolve("zzz", {})
    assert " g/16," in str(raised.value) and " G/16," in str(raised.value)


def test_the_nearest_name_has_the_fewest_other_fields():
    for name in ("B/16", "R50+L/32", "R50x1", "cifar10_tiny"):
        assert nearest(resolve(name, {})) == name
    fields = {"gelu": "exact", "num_classes": 7, "dropout": 0.5}
    spec = resolve("S/16", fields)
    assert nearest(spec, ignored=("num_classes", "dropout")) == "S/16"
    own = VARIANTS["S/16"]
    assert different_fields(spec, own) == ["gelu", "dropout", "num_classes"]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_spec_is_its_nearest_name_and_overrides(name):
    assert as_overrides(resolve(name, {})) == (name, {})
    changed = {"num_classes": 7, "image_size": 96}
    assert as_overrides(resolve(name, changed)) == (name, changed)
