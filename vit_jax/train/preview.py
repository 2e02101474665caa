"""What a config makes of its training images, as a picture to look at."""

import contextlib
import copy
import functools
import itertools
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from vit_jax.data.contact_sheet import contact_sheet
from vit_jax.data.decode import UnreadableImage, decode
from vit_jax.data.preprocess import preprocess
from vit_jax.data.sources import Source
from vit_jax.train import mixing
from vit_jax.train.augment import examples_at, mixing_values
from vit_jax.train.durations import total_steps
from vit_jax.train.inputs import Inputs, open_inputs
from vit_jax.train.stages import plan_stages
from vit_jax.train.step import step_keys

# Smaller shares of a label are not worth showing.
_SHOWN = 0.05


def write_preview(config: ConfigDict, file: str | os.PathLike, count: int) -> None:
    """Writes a contact sheet of the first `count` training examples.

    Its rows: the images as they are; after crop, flip and the other changes made on the
    host; where the config mixes, as the model gets them, with mixed labels; and what
    evaluation and prediction would make of the same images. All is as in the run's
    first step (and the following ones, if `count` needs them). The evaluation split
    isn't read.

    Raises:
      ValueError: faults of the config or the data.
      FileNotFoundError: a source is not there.
    """
    config = copy.deepcopy(config)
    config.data.workers = 0
    inputs = open_inputs(config, evaluation=False)
    stage = plan_stages(config, total_steps(config, inputs.num_examples))[0]
    steps = -(-count // stage.batch_size)
    with contextlib.closing(inputs.train_batches(0, stage)) as batches:
        drawn = list(itertools.islice(batches, steps))
    shown = {
        key: np.concatenate([batch[key] for batch in drawn])[:count]
        for key in ("image", "label", "index")
    }
    names = [inputs.class_names[label] for label in shown["label"]]
    originals, judged = _without_changes(config, inputs, shown["index"])
    rows = [
        ("as they are", originals, names),
        ("after changes on the host", list(shown["image"]), names),
    ]
    values = mixing_values(config)
    if any(values[key] for key in ("label_smoothing", "mixup", "cutmix", "erasing")):
        rows.append(_mixed(config, inputs, drawn, count))
    rows.append(("as evaluation sees them", judged, names))
    contact_sheet(rows).save(file)


def _without_changes(
    config: ConfigDict, inputs: Inputs, positions: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(images as they are, the same made as for evaluation)."""
    source = inputs.train_source
    examples = examples_at(config, positions, len(source))
    originals = [_original(source, int(one), config.model.channels) for one in examples]
    return originals, [preprocess(one, inputs.preprocessing) for one in originals]


def _original(source: Source, example: int, channels: int) -> np.ndarray:
    """The image, or a black square where it can't be read and the run passes it over:
    where it ends the run, the batch has ended the sheet before."""
    try:
        return decode(source[example][0], channels)
    except (UnreadableImage, OSError):
        return np.zeros((1, 1, channels), np.uint8)


def _mixed(
    config: ConfigDict, inputs: Inputs, batches: Sequence[dict[str, Any]], count: int
) -> tuple[str, list[np.ndarray], list[str]]:
    """The row of images as the first training steps get them."""
    num_classes = config.model.num_classes or len(inputs.class_names)
    prepare = functools.partial(
        mixing.prepare,
        num_classes=num_classes,
        preprocessing=inputs.preprocessing,
        dtype=jnp.dtype(config.train.compute_dtype),
        **mixing_values(config),
    )
    mean, std = (np.array(inputs.preprocessing[key]) for key in ("mean", "std"))
    shown, captions = [], []
    for step, batch in enumerate(batches):
        # Draws and partners are those of the whole batch, whatever is shown of it.
        images, targets = jax.jit(prepare)(batch, step_keys(config.seed, step)[0])
        images = np.asarray(images[: count - len(shown)], np.float32)
        shown += list(((images * std + mean).clip(0, 1) * 255).round().astype(np.uint8))
        targets = np.asarray(targets)[: len(images)]
        captions += [_caption(row, inputs.class_names) for row in targets]
    return "as the model gets them", shown, captions


def _caption(target: np.ndarray, class_names: tuple[str, ...]) -> str:
    """The two largest shares of a target, a line each."""
    largest = np.argsort(-target, kind="stable")[:2]
    # A model may have more classes than the data, which then have no names.
    names = (*class_names, *map(str, range(len(class_names), len(target))))
    return "\n".join(
        f"{names[i]}: {target[i]:.0%}" for i in largest if target[i] >= _SHOWN
    )
