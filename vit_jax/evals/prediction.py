"""Class probabilities of image files."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath

from vit_jax.data.decode import UnreadableImage, has_colour
from vit_jax.data.preprocess import preprocess

# Most images of one call of the model; the last call is filled up to the same shape.
_BATCH = 32
# Loss that trained a model -> what makes its logits probabilities.
ACTIVATIONS = {"softmax": jax.nn.softmax, "sigmoid": jax.nn.sigmoid}


def predict_files(
    logits_of: Callable[[Any, jax.Array], jax.Array],
    params: Any,
    files: Sequence[str],
    *,
    preprocessing: Mapping[str, Any],
    class_names: Sequence[str],
    top: int,
    loss: str = "softmax",
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """(predictions, reasons why the other files could not be read).

    Args:
      logits_of: (params, uint8 images [B, Y, X, C]) -> logits [B, V].
      files: paths of image files.
      preprocessing: how a file becomes the model's input.
      class_names: in the order of the logits.
      top: how many classes to name.
      loss: that trained the model: "softmax" or "sigmoid".

    A prediction is {"file", "classes": [{"class", "probability"}, …]}, the likeliest
    first. Probabilities are the softmax over all classes, or for a sigmoid loss each
    class's own, which need not sum to 1.
    """
    size = min(_BATCH, max(len(files), 1))
    activation = ACTIVATIONS[loss]
    probabilities_of = jax.jit(lambda params, x: activation(logits_of(params, x)))
    predictions, unreadable = [], {}
    for start in range(0, len(files), size):
        images = {}
        for file in files[start : start + size]:
            try:
                data = epath.Path(file).read_bytes()
                images[file] = preprocess(data, preprocessing)
            except (UnreadableImage, OSError) as error:
                unreadable[file] = str(error)
        if not images:
            continue
        batch = np.stack(list(images.values()))
        filled = np.pad(batch, [(0, size - len(batch))] + [(0, 0)] * 3)
        rows = np.asarray(probabilities_of(params, filled))[: len(batch)]
        predictions += [
            {"file": file, "classes": _top(row, class_names, top)}
            for file, row in zip(images, rows, strict=True)
        ]
    return predictions, unreadable


def any_colour(files: Sequence[str]) -> str:
    """A file that holds colours, which a grey model doesn't see; "" where the first
    ones have none."""
    for file in files[:_BATCH]:
        with contextlib.suppress(OSError):
            if has_colour(epath.Path(file).read_bytes()):
                return file
    return ""


def _top(row: np.ndarray, class_names: Sequence[str], top: int) -> list[dict[str, Any]]:
    # Stable, so that equal probabilities come in the order of the classes.
    best = np.argsort(-row, kind="stable")[:top]
    return [
        {"class": _name(class_names, index), "probability": float(row[index])}
        for index in best.tolist()
    ]


def _name(class_names: Sequence[str], index: int) -> str:
    """A model may have more outputs than its data has classes."""
    return class_names[index] if index < len(class_names) else f"class {index}"
