"""What holds of every model by name, traced at two blocks and never computed.

Counts at whole depth are in test_variants.py.
"""

from functools import cache

import jax
import jax.numpy as jnp
import pytest

import vit_jax
from vit_jax import trees
from vit_jax.models.flops import count_parameters
from vit_jax.models.spec import ResNetSpec
from vit_jax.models.variants import VARIANTS, resolve

# The others differ from these in size or patch alone; `make test-all` has them.
QUICK = {"Ti/16", "H/14", "R+Ti/16", "R50+B/16", "R50x1", "cifar10_tiny"}


def names_of(variants):
    return [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in variants
    ]


ALL = names_of(VARIANTS)
VITS = names_of(
    [name for name, spec in VARIANTS.items() if not isinstance(spec, ResNetSpec)]
)


def fields_of(name):
    """Seven classes, and fewer blocks and bottlenecks than the variant's."""
    spec = VARIANTS[name]
    depth = {} if isinstance(spec, ResNetSpec) else {"depth": 2}
    return depth | {"num_classes": 7, "stem_units": (1,) * len(spec.stem_units)}


def model_of(name, **options):
    return vit_jax.create_model(name, **fields_of(name) | options)


def shape_of(name):
    """(rows, columns) of pixels, no square, that every stem of the name takes."""
    if "R" in name:
        return 64, 96
    return 2 * VARIANTS[name].patch_size, 3 * VARIANTS[name].patch_size


def images_of(name):
    return jax.ShapeDtypeStruct((2, *shape_of(name), 3), jnp.float32)


@cache
def params_of(name):
    """Shapes of the parameters."""
    model = model_of(name)
    return jax.eval_shape(model.init, jax.random.key(0), images_of(name))["params"]


def traced(name, model, **options):
    """Shapes of what the model gives."""
    return jax.eval_shape(
        lambda params, images: model.apply({"params": params}, images, **options),
        params_of(name),
        images_of(name),
    )


@pytest.mark.parametrize("name", ALL)
def test_rectangles_give_a_float32_logit_for_each_class(name):
    logits = traced(name, model_of(name))
    assert (logits.shape, logits.dtype) == ((2, 7), jnp.float32)
    assert {leaf.dtype for leaf in jax.tree.leaves(params_of(name))} == {
        jnp.dtype("float32")
    }


@pytest.mark.parametrize("name", ALL)
def test_bfloat16_is_of_activations_alone(name):
    model = model_of(name, dtype=jnp.bfloat16)
    assert traced(name, model).dtype == jnp.float32
    shapes = jax.eval_shape(model.init, jax.random.key(0), images_of(name))["params"]
    assert shapes == params_of(name)


@pytest.mark.parametrize("name", ALL)
def test_no_classes_give_what_the_head_would_read(name):
    features = traced(name, model_of(name, num_classes=0))
    assert features.shape == (2, params_of(name)["head"]["kernel"].shape[0])
    assert features.dtype == jnp.float32


@pytest.mark.parametrize("name", VITS)
def test_features_are_the_tokens_of_every_layer(name):
    model = model_of(name)
    logits, taps = traced(name, model, attention_weights=True)
    assert logits.shape == (2, 7)
    rows, columns = model.grid_shape(shape_of(name))
    tokens, spec = 1 + rows * columns, VARIANTS[name]
    shapes = [layer.shape for layer in taps["layers"]]
    assert shapes == [(2, tokens, spec.width)] * 2
    weights = [layer.shape for layer in taps["attention"]]
    assert weights == [(2, spec.num_heads, tokens, tokens)] * 2


@pytest.mark.parametrize("name", VITS)
def test_scan_and_remat_keep_names_and_shapes(name):
    model = model_of(name, scan=True, remat="dots")
    shapes = jax.eval_shape(model.init, jax.random.key(0), images_of(name))["params"]
    assert shapes == params_of(name)
    assert traced(name, model).shape == (2, 7)


@pytest.mark.parametrize("name", ALL)
def test_the_formula_counts_rectangles(name):
    spec = resolve(name, fields_of(name))
    assert trees.count(params_of(name)) == count_parameters(spec, shape_of(name))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_model_says_what_images_it_takes(name):
    preprocessing = vit_jax.create_model(name).preprocessing
    assert preprocessing.image_size == (VARIANTS[name].image_size,) * 2
    assert preprocessing.mean == preprocessing.std == (0.5,) * 3
    assert preprocessing.crop == 0.875
