"""Probabilities of image files."""

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from vit_jax.evals.prediction import predict_files

PREPROCESSING = {
    "image_size": [4, 4],
    "channels": 1,
    "resize": "stretch",
    "crop_fraction": 1.0,
    "interpolation": "bilinear",
}


def logits_of(params, images):
    """Three classes; the brightness of an image is the logit of class 1."""
    bright = images.astype(jnp.float32).mean((1, 2, 3)) / 255 * params
    return jnp.stack([jnp.zeros_like(bright), bright, -bright], axis=1)


def predict(files, **options):
    options = {"top": 2, "class_names": ("a", "b", "c")} | options
    return predict_files(
        logits_of, jnp.float32(2), files, preprocessing=PREPROCESSING, **options
    )


@pytest.fixture
def files(tmp_path):
    paths = []
    for number in range(40):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.new("L", (4, 4), 6 * number).save(paths[-1])
    return paths


def test_files_come_in_order_over_several_batches(files):
    predictions, unreadable = predict(files)
    assert not unreadable
    assert [row["file"] for row in predictions] == files
    for number, row in enumerate(predictions):
        bright = 2 * 6 * number / 255
        share = np.exp(bright) / (1 + np.exp(bright) + np.exp(-bright))
        by_class = {entry["class"]: entry["probability"] for entry in row["classes"]}
        np.testing.assert_allclose(by_class["b"], share, rtol=1e-5)


def test_sigmoid_losses_give_each_class_its_own_probability(files):
    predictions, _ = predict(files[-1:], loss="sigmoid", top=3)
    bright = 2 * 6 * 39 / 255
    found = [entry["probability"] for entry in predictions[0]["classes"]]
    wanted = [1 / (1 + np.exp(-x)) for x in (bright, 0, -bright)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_ties_come_in_the_order_of_classes_and_nameless_outputs_are_numbered(files):
    predictions, _ = predict(files[:1], top=3, class_names=("a", "b"))
    names = [entry["class"] for entry in predictions[0]["classes"]]
    assert names == ["a", "b", "class 2"]


def test_unreadable_files_are_named_and_the_rest_predicted(files, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_text("hello")
    absent = str(tmp_path / "absent.png")
    predictions, unreadable = predict([str(broken), absent, files[3]])
    assert [row["file"] for row in predictions] == [files[3]]
    assert set(unreadable) == {str(broken), absent}
    assert predict([]) == ([], {})
