"""Tests vit_jax/models/variants.py and the exact size of every model in it."""

import jax
import jax.numpy as jnp
import pytest

import vit_jax
from vit_jax import trees
from vit_jax.models.flops import count_parameters
from vit_jax.models.variants import VARIANTS, list_models, resolve

# Parameters at 224 px with 1,000 classes. Those of the original code are what its
# models_test.py asserts; g/14 and G/14 are timm's giant and gigantic.
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
}


def shapes_of(name, image_shape=(224, 224), **overrides):
    """The parameter shapes of a model, without computing anything."""
    model = vit_jax.create_model(name, **overrides)
    images = jax.ShapeDtypeStruct((1, *image_shape, 3), jnp.float32)
    return jax.eval_shape(model.init, jax.random.key(0), images)["params"]


@pytest.mark.parametrize("name", VARIANTS)
def test_exact_count_by_formula_and_by_tree(name):
    if name == "cifar10_tiny":
        pytest.skip("32 px; has its own test")
    count = trees.count(shapes_of(name, num_classes=1000))
    assert count == COUNTS[name]
    spec = resolve(name, {"num_classes": 1000})
    assert count_parameters(spec, (224, 224)) == count


def test_every_variant_is_counted():
    assert set(COUNTS) | {"cifar10_tiny"} == set(VARIANTS)


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
        ("B/16", dict(width=10, depth=1, num_heads=2, mlp_dim=10), 21_390),
        ("B/16", dict(width=10, depth=1, num_heads=2, mlp_dim=10, pool="gap"), 21_370),
    ],
)
def test_exact_count_of_the_originals_other_forms(name, overrides, count):
    assert trees.count(shapes_of(name, **overrides)) == count
    spec = resolve(name, {"num_classes": 1000, **overrides})
    assert count_parameters(spec, (224, 224)) == count


def test_list_models_takes_a_glob():
    assert list_models("B/*") == ["B/32", "B/16", "B/14", "B/8"]
    assert list_models() == list(VARIANTS)
    assert vit_jax.list_models("*tiny") == ["cifar10_tiny"]
    assert list_models("nothing*") == []


def test_none_means_the_variants_own_value():
    assert resolve("L/16", {"dropout": None}).dropout == 0.1
    assert resolve("L/16", {"dropout": 0.0}).dropout == 0.0


def test_unknown_names_are_refused_with_a_near_one():
    with pytest.raises(
        ValueError, match="model 'b/16' does not exist; did you mean 'B/1"
    ):
        resolve("b/16", {})
    with pytest.raises(
        ValueError, match="'num_class' does not exist; did you mean 'num_"
    ):
        resolve("B/16", {"num_class": 10})
    with pytest.raises(
        ValueError, match="model 'zzz' does not exist. There are: Ti/32"
    ):
        resolve("zzz", {})
