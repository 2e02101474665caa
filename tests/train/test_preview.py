"""Tests vit_jax/train/preview.py."""

import contextlib

import jax.numpy as jnp
import numpy as np
import pytest

from tests.data.pictures import write_folder
from tests.train.digits import tiny_config
from vit_jax.train import mixing, preview
from vit_jax.train.augment import mixing_values
from vit_jax.train.inputs import open_inputs
from vit_jax.train.step import step_keys


@pytest.fixture
def rows(monkeypatch):
    """The rows of the sheets that were drawn, in place of pictures."""
    drawn = []

    class Sheet:
        def save(self, file):
            pass

    def contact_sheet(rows):
        drawn.append(rows)
        return Sheet()

    monkeypatch.setattr(preview, "contact_sheet", contact_sheet)
    return drawn


def mixing_config():
    config = tiny_config()
    config.data.train.batch_size = 8
    config.augment.erasing = 0.9
    config.augment.mixup = 0.8
    config.augment.label_smoothing = 0.5
    config.model.num_classes = 40
    return config


@pytest.mark.parametrize("count", [3, 8, 11])
def test_the_sheet_is_what_the_first_steps_get(rows, count):
    config = mixing_config()
    preview.write_preview(config, "sheet.png", count)
    titles, images, captions = zip(*rows[0], strict=True)
    assert titles[2] == "as the model gets them"
    assert {len(row) for row in (*images, *captions)} == {count}
    inputs = open_inputs(config)
    with contextlib.closing(inputs.train_batches(0)) as batches:
        for step in range(-(-count // 8)):
            batch = next(batches)
            mixed, targets = mixing.prepare(
                batch,
                step_keys(config.seed, step)[0],
                num_classes=40,
                preprocessing=inputs.preprocessing,
                dtype=jnp.float32,
                **mixing_values(config),
            )
            pixels = ((np.asarray(mixed) / 2 + 0.5).clip(0, 1) * 255).round()
            for slot, number in enumerate(range(8 * step, min(count, 8 * step + 8))):
                np.testing.assert_array_equal(images[1][number], batch["image"][slot])
                shown = images[2][number].astype(float)
                np.testing.assert_allclose(shown, pixels[slot], atol=1)
                share = np.asarray(targets[slot]).max()
                assert f": {share:.0%}" in captions[2][number]


def test_originals_are_those_of_repeated_images(rows):
    config = tiny_config()
    config.augment.crop = "resize"
    config.augment.flip = 0.0
    config.augment.repeats = 2
    preview.write_preview(config, "sheet.png", 6)
    (_, originals, _), (_, changed, _), _ = rows[0]
    for original, image in zip(originals, changed, strict=True):
        np.testing.assert_array_equal(original, image)


def test_the_last_row_is_what_evaluation_makes_of_the_same_images(rows, tmp_path):
    write_folder(tmp_path / "train", {"a": 3, "b": 3})
    config = tiny_config()
    config.data.source = str(tmp_path)
    config.data.train.batch_size = 6
    config.data.eval.resize = "center"
    config.data.eval.crop_fraction = 0.5
    preview.write_preview(config, "sheet.png", 6)
    title, images, captions = rows[0][-1]
    assert title == "as evaluation sees them"
    assert captions == rows[0][0][2]
    # In the order of the source, as the run's own evaluation reads it.
    config.data.eval.split = "train"
    config.data.eval.batch_size = 6
    (batch,) = open_inputs(config).eval_batches()
    found = sorted(image.tobytes() for image in images)
    assert found == sorted(image.tobytes() for image in batch["image"])
    assert len(set(found)) == 6


def test_no_evaluation_split_is_needed_and_bad_images_are_shown_black(rows, tmp_path):
    write_folder(tmp_path / "train", {"a": 2, "b": 2})
    (tmp_path / "train" / "a" / "001.png").write_bytes(b"")
    config = tiny_config()
    config.data.source = str(tmp_path)
    config.data.bad_images = "skip"
    config.data.train.batch_size = 4
    preview.write_preview(config, "sheet.png", 4)
    sizes = sorted(image.shape[:2] for image in rows[0][0][1])
    assert sizes == [(1, 1), (12, 16), (12, 16), (12, 16)]


def test_a_class_that_the_data_lacks_has_its_number():
    assert preview._caption(np.array([0.1, 0.6, 0.3]), ("cat",)) == "1: 60%\n2: 30%"


def test_a_run_that_starts_small_is_shown_small(rows):
    config = tiny_config()
    config.schedule.stages = ((4, 0.5, 8), (8, 0.5, 0))
    preview.write_preview(config, "sheet.png", 5)
    assert {image.shape for image in rows[0][1][1]} == {(4, 4, 1)}
