"""Features of a model, layer by layer."""

import jax
import numpy as np
import pytest

import vit_jax
from vit_jax.evals.features import collect, layer_names, make_features

PREPROCESSING = {"mean": [0.5] * 3, "std": [0.5] * 3}


@pytest.fixture(scope="module")
def tiny():
    model = vit_jax.create_model(
        "Ti/16", width=8, depth=2, num_heads=2, mlp_dim=8, patch_size=4, num_classes=3
    )
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), np.uint8)
    params = model.init(jax.random.key(0), images.astype(np.float32))["params"]
    return model, params, images


def test_pooled_is_what_the_head_reads_with_or_without_layers(tiny):
    model, params, images = tiny
    alone = make_features(model, PREPROCESSING)(params, images)["pooled"]
    names = layer_names(2)
    assert names == ("0", "1", "pooled")
    found = make_features(model, PREPROCESSING, names, class_token=True)(params, images)
    assert list(found) == list(names)
    np.testing.assert_allclose(found["pooled"], alone, rtol=1e-5, atol=1e-6)
    floats = (images / 255 - 0.5) / 0.5
    _, taps = model.apply({"params": params}, floats.astype(np.float32), features=True)
    np.testing.assert_allclose(
        found["1"], taps["layers"][1][:, 0], rtol=1e-4, atol=1e-5
    )
    mean = make_features(model, PREPROCESSING, ["0"])(params, images)["0"]
    np.testing.assert_allclose(mean, taps["layers"][0].mean(1), rtol=1e-4, atol=1e-5)


def test_collect_leaves_out_what_has_no_weight(tiny):
    model, params, images = tiny
    batches = [
        {
            "image": images,
            "label": np.arange(5),
            "weight": np.array([1, 0, 1, 1, 0.0]),
        }
    ]
    features_of = jax.jit(make_features(model, PREPROCESSING))
    found, labels = collect(features_of, params, batches)
    np.testing.assert_array_equal(labels, [0, 2, 3])
    assert found["pooled"].shape == (3, 8)
    batches[0]["weight"][:] = 0
    with pytest.raises(ValueError, match="there are no images"):
        collect(features_of, params, batches)
