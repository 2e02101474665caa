"""TensorFlow Datasets by name, read without TensorFlow."""

import re
from typing import Any

import numpy as np

from vit_jax.data.labels import class_list

_NAME = re.compile(r"[A-Za-z]\w*(/[\w.\-]+)?(:[\w.*]+)?")


class TfdsSource:
    """A split of a prepared TFDS set, images as the encoded bytes that it stores."""

    def __init__(self, records: Any, class_names: tuple[str, ...], title: str):
        self.class_names = class_names
        self._records = records
        self._title = title
        self._labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> tuple[bytes, int, str]:
        record = self._records[index]
        return record["image"], int(record["label"]), self.name(index)

    def name(self, index: int) -> str:
        return f"{self._title} {index}"

    def labels(self) -> np.ndarray:
        # They lie inside the records, so that all must be read; once is enough.
        if self._labels is None:
            labels = [self[index][1] for index in range(len(self))]
            self._labels = np.array(labels, np.int32)
        return self._labels


def open_tfds(name: str, split: str) -> TfdsSource:
    """A split, or part of one (`train[:98%]`), of a set that TFDS knows and that is
    prepared in a format with random access.

    Raises:
      ValueError: TFDS knows no such set or split, or the set is no image
        classification, or it is not prepared.
    """
    import tensorflow_datasets as tfds

    if not _NAME.fullmatch(name):
        raise ValueError(
            f"tfds:{name} must be the name of a set, as tfds:cifar10, with a config "
            "and a version where wanted, as tfds:imagenet_resized/64x64:0.1.0."
        )
    try:
        builder = tfds.builder(name, file_format="array_record")
    except tfds.core.DatasetNotFoundError as error:
        raise ValueError(
            f"tfds:{name}: TFDS knows no such set; `tfds.list_builders()` lists them."
        ) from error
    # What it makes of an unknown config or version.
    except (AssertionError, ValueError) as error:
        reason = (str(error) or "no such version").splitlines()[0]
        raise ValueError(f"tfds:{name} can't be opened: {reason}") from error
    features = builder.info.features
    if not {"image", "label"} <= set(features):
        raise ValueError(
            f"tfds:{name} has the features {', '.join(features)}; it must "
            "have image and label."
        )
    if not builder.is_prepared():
        raise ValueError(_how_to_prepare(name, str(builder.data_dir)))
    try:
        records = builder.as_data_source(
            split=split, decoders={"image": tfds.decode.SkipDecoding()}
        )
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"tfds:{name} has no split {split}; it has "
            f"{', '.join(builder.info.splits)}, and parts such as train[:98%]."
        ) from error
    names = class_list(features["label"].names)
    return TfdsSource(records, names, f"tfds:{name} {split}")


def _how_to_prepare(name: str, folder: str) -> str:
    call = f"tfds.builder('{name}', file_format='array_record').download_and_prepare()"
    return (
        f"tfds:{name} is not prepared as ArrayRecord in {folder}; run `python -c "
        f'"import tensorflow_datasets as tfds; {call}"`. That needs TensorFlow where '
        "the set's images come as arrays and not as files; `vit_jax data prepare` "
        "makes ImageNet, CIFAR, Pets and Flowers without. Or name a folder with "
        "train/CLASS/… and test/CLASS/…: --config.data.source=FOLDER."
    )
