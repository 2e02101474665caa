"""A set of TensorFlow Datasets, prepared once for all tests of this folder."""

import importlib
import sys

import pytest
import tensorflow_datasets as tfds

# A package of its own, as users' sets are: TFDS looks for files beside the code.
BUILDERS = """
import io

import tensorflow_datasets as tfds
from PIL import Image

from tests.data.pictures import encoded, smooth_pixels


class TinyPhotos(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "label": tfds.features.ClassLabel(names=["ant", "bee", "cow"]),
        }
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features)
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(8), "test": self._generate_examples(2)}

    def _generate_examples(self, count):
        for number in range(count):
            photo = Image.fromarray(smooth_pixels(10, 14, seed=number))
            file = io.BytesIO(encoded(photo, "PNG"))
            yield number, {"image": file, "label": number % 3}


class NoLabels(TinyPhotos):
    def _info(self):
        features = tfds.features.FeaturesDict({"image": tfds.features.Image()})
        return self.dataset_info_from_configs(features=features)
"""


@pytest.fixture(scope="session")
def tiny_photos(tmp_path_factory):
    """A data folder of TFDS with a prepared set of ten encoded images."""
    folder = tmp_path_factory.mktemp("tfds")
    package = folder / "tiny_photos_set"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "builders.py").write_text(BUILDERS)
    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module("tiny_photos_set.builders")
    finally:
        sys.path.remove(str(folder))
    module.TinyPhotos(
        data_dir=folder, file_format="array_record"
    ).download_and_prepare()
    tfds.core.add_data_dir(folder)
    return folder
