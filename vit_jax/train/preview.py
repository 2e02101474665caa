"""What a config makes of its training images, as a picture to look at."""

import copy
import os
from typing import Any

import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from vit_jax.data.contact_sheet import contact_sheet
from vit_jax.data.decode import decode
from vit_jax.data.randomness import shuffled
from vit_jax.train import mixing
from vit_jax.train.inputs import Inputs, mixing_values, open_inputs
from vit_jax.train.step import step_keys

# Smaller shares of a label are not worth showing.
_SHOWN = 0.05


def write_preview(config: ConfigDict, file: str | os.PathLike, count: int) -> None:
    """Writes a contact sheet of the first `count` training examples.

    Its rows: the images as they are; after crop, flip and the other changes made on the
    host; and, where the config mixes, as the model gets them, with mixed labels.

    Raises:
      ValueError: faults of the config or the data.
      FileNotFoundError: a source is not there.
    """
    config = copy.deepcopy(config)
    config.data.train.batch_size = max(count, 2)
    config.data.workers = 0
    inputs = open_inputs(config)
    batches = inputs.train_batches(0)
    batch = next(batches)
    batches.close()
    names = [inputs.class_names[label] for label in batch["label"]]
    rows = [
        ("as they are", _originals(config, inputs, batch), names),
        ("after changes on the host", batch["image"], names),
    ]
    values = mixing_values(config)
    if any(values[key] for key in ("label_smoothing", "mixup", "cutmix", "erasing")):
        rows.append(_mixed(config, inputs, batch))
    contact_sheet([(t, list(i)[:count], c[:count]) for t, i, c in rows]).save(file)


def _originals(
    config: ConfigDict, inputs: Inputs, batch: dict[str, np.ndarray]
) -> list[np.ndarray]:
    source = inputs.train_source
    examples = shuffled(config.seed, batch["index"], len(source))
    return [decode(source[example][0], config.model.channels) for example in examples]


def _mixed(
    config: ConfigDict, inputs: Inputs, batch: dict[str, Any]
) -> tuple[str, np.ndarray, list[str]]:
    """The row of images as the first training step gets them."""
    images, targets = mixing.prepare(
        batch,
        step_keys(config.seed, 0)[0],
        num_classes=len(inputs.class_names),
        preprocessing=inputs.preprocessing,
        dtype=jnp.float32,
        **mixing_values(config),
    )
    mean, std = (np.array(inputs.preprocessing[key]) for key in ("mean", "std"))
    pixels = (np.asarray(images) * std + mean).clip(0, 1) * 255
    captions = [_caption(row, inputs.class_names) for row in np.asarray(targets)]
    return "as the model gets them", pixels.round().astype(np.uint8), captions


def _caption(target: np.ndarray, class_names: tuple[str, ...]) -> str:
    """The two largest shares of a target, a line each."""
    largest = np.argsort(-target, kind="stable")[:2]
    return "\n".join(
        f"{class_names[i]}: {target[i]:.0%}" for i in largest if target[i] >= _SHOWN
    )
