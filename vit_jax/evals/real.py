"""ImageNet-ReaL: validation accuracy against labels that were made anew.

The published `real.json` is a list of 50,000 lists of class ids, one for each
validation image in the order of the images' numbers; an image without any is not
counted, and a prediction is right if it is any of them.

Source: Beyer et al. 2020, arXiv 2006.07159, section 4.
"""

import json
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath

# ILSVRC2012_val_00000001.JPEG is the first image.
_NUMBER = re.compile(r"ILSVRC2012_val_(\d{8})")


def read_real(file: str | os.PathLike) -> list[frozenset[int]]:
    """The class ids of each validation image.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is no list of lists of class ids.
    """
    file = epath.Path(file).expanduser()
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist; name the published real.json.")
    try:
        lists: Any = json.loads(file.read_text())
        return [frozenset(int(label) for label in labels) for labels in lists]
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{file} must be a JSON list of lists of class ids, as the published "
            f"real.json ({error})."
        ) from error


def real_accuracy(
    real: Sequence[frozenset[int]], names_N: Sequence[str], predicted_N: np.ndarray
) -> dict[str, Any]:
    """{"real_accuracy", "real_examples"} of predictions.

    Args:
      real: what `read_real` gave.
      names_N: a name of each example that holds its file's, ILSVRC2012_val_….
      predicted_N: class ids, in the order of the WordNet ids.

    Raises:
      ValueError: a name has no number, or one that `real` lacks; or no image counts.
    """
    right = counted = 0
    for name, predicted in zip(names_N, predicted_N.tolist(), strict=True):
        labels = real[place(name, len(real))]
        counted += bool(labels)
        right += predicted in labels
    if not counted:
        raise ValueError("none of the images has a ReaL label; evaluate all of them.")
    return {"real_accuracy": right / counted, "real_examples": counted}


def place(name: str, count: int) -> int:
    """Which of `count` lists is an image's, by the name of its file.

    Raises:
      ValueError: the name has no number, or one beyond `count`.
    """
    match = _NUMBER.search(name)
    if not match or not 1 <= int(match[1]) <= count:
        raise ValueError(
            f"{name} is no ImageNet validation image among {count}: its name must hold "
            "ILSVRC2012_val_ and eight digits."
        )
    return int(match[1]) - 1
