"""All pictures of a run, of foreign weights, and what is said where one can't be."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.train.digits import tiny_config
from vit_jax.models.adapt import ZERO_HEAD
from vit_jax.train.loop import train_and_evaluate
from vit_jax.train.pictures import write_pictures
from vit_jax.weights import load

OF_ANSWERS = ("confusion", "mistakes")
OF_WEIGHTS = ("filters", "position")
OF_IMAGES = ("distance", "rollout", "heads", "region", "occlusion")


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train_and_evaluate(tiny_config(), folder)
    return folder


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 12, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    Image.fromarray(pixels[:8, :8]).save(folder / "b.png")
    return folder


def test_a_run_has_every_picture_without_naming_an_image(workdir, tmp_path):
    written = write_pictures(workdir, tmp_path / "report", examples=50, occluded=3)
    assert written.names == ("curves", *OF_ANSWERS, *OF_WEIGHTS, *OF_IMAGES)
    assert written.notes == () and written.unreadable == {}
    page = written.page.read_text()
    assert "the first 50 of 360 evaluation images" in page
    for name in written.names:
        with Image.open(tmp_path / "report" / f"{name}.png") as picture:
            assert picture.width > 200
        assert f'id="{name}"' in page


@pytest.mark.slow
def test_named_images_are_looked_at_and_the_rest_is_said(workdir, images, tmp_path):
    (images / "broken.png").write_text("hello")
    copy = tmp_path / "copy"
    shutil.copytree(workdir, copy)
    config = json.loads((copy / "config.json").read_text())
    config["data"]["source"] = str(tmp_path / "gone")
    (copy / "config.json").write_text(json.dumps(config))
    written = write_pictures(copy, tmp_path / "report", images=[str(images)])
    assert written.names == ("curves", *OF_WEIGHTS, *OF_IMAGES)
    assert list(written.unreadable) == [str(images / "broken.png")]
    (note,) = written.notes
    assert "No pictures of the run's answers" in note and "gone" in note
    assert "a.png" in written.page.read_text()


def test_foreign_weights_have_the_pictures_that_need_no_run(tmp_path, workdir):
    from vit_jax.convert.target import write
    from vit_jax.weights import read_weights

    file = tmp_path / "model.safetensors"
    write(read_weights(workdir), file, "timm")
    # Which images the model takes isn't in the file.
    words = {"image_size": (8,), "mean": (0.5,), "std": (0.5,), "num_heads": 2}
    written = write_pictures(file, tmp_path / "report", **words)
    assert written.names == OF_WEIGHTS
    assert written.notes == ("Name --images to see what the model looks at.",)


@pytest.mark.slow
def test_an_untrained_head_is_said(workdir, tmp_path, monkeypatch):
    loaded = load(workdir)
    loaded.params["head"]["kernel"] = 0 * loaded.params["head"]["kernel"]
    monkeypatch.setattr("vit_jax.train.pictures.load", lambda *_, **__: loaded)
    written = write_pictures(workdir, tmp_path / "report")
    assert ZERO_HEAD in written.notes
    assert not {*OF_ANSWERS, "occlusion"} & set(written.names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2}, "layer=2 must be 1 to 1"),
        ({"mask": (0, 0, 0.1, 0.1)}, "holds no patch of the 2 x 2"),
        ({"compare": ["."]}, "has no metrics.jsonl"),
        ({"images": ["absent.png"]}, "absent.png does not exist"),
    ],
)
def test_what_can_not_be_is_refused(workdir, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        write_pictures(workdir, tmp_path / "report", examples=1, **options)


def test_images_of_which_none_can_be_read_are_refused(workdir, tmp_path):
    (tmp_path / "broken.png").write_text("hello")
    with pytest.raises(ValueError, match="none of the images can be read"):
        write_pictures(workdir, tmp_path / "r", images=[str(tmp_path / "broken.png")])


def test_an_output_that_is_a_file_is_refused(workdir, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; name a folder"):
        write_pictures(workdir, tmp_path / "file")
