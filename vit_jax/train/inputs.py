"""From a config to data: sources, batches, classes and preprocessing."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.data import pipeline
from vit_jax.data.preprocess import describe
from vit_jax.data.sources import Source, class_balanced_share, open_source
from vit_jax.data.transforms import EvalTransform, TrainTransform

Batches = Iterator[dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What training and evaluation read.

    Attributes:
      class_names: in the order of the labels; fixed by the training split.
      num_examples: examples of one epoch of training.
      train_batches: step -> endless iterator of this process's part of the batches that
        make steps `step` + 1, `step` + 2, …: {"image" uint8 [b, Y, X, C], "label" int32
        [b], "weight" float32 [b], "index" int64 [b]}. Its `close()` ends the workers.
      eval_batches: () -> one pass over the evaluation split, padded with weight 0.
      preprocessing: JSON-able; how a file becomes uint8 input (`data.preprocess`).
    """

    class_names: tuple[str, ...]
    num_examples: int
    train_batches: Callable[[int], Batches]
    eval_batches: Callable[[], Batches]
    preprocessing: dict[str, Any]


def open_inputs(config: ConfigDict) -> Inputs:
    """The data of a run.

    Raises:
      ValueError: faults of the data keys or of the data, a line each.
      FileNotFoundError: a source or a split is not there.
    """
    faults = [*_channel_faults(config), *_augment_faults(config)]
    if faults:
        raise ValueError("\n".join(faults))
    source = _open(config.data.source, config.data.train.split, "data.train.split")
    if config.data.train.fraction < 1:
        source = class_balanced_share(source, config.data.train.fraction, config.seed)
    return Inputs(
        class_names=source.class_names,
        num_examples=len(source),
        train_batches=functools.partial(_train_batches, config, source),
        eval_batches=open_evaluation(config, source.class_names),
        preprocessing=preprocessing_of(config),
    )


def open_evaluation(
    config: ConfigDict, class_names: Sequence[str]
) -> Callable[[], Batches]:
    """() -> one pass over the evaluation split; the training split isn't touched.

    Args:
      class_names: those of the training run.

    Raises:
      ValueError: the split is empty or has classes that training lacked.
      FileNotFoundError: the source or the split is not there.
    """
    address = config.data.eval.source or config.data.source
    source = _open(address, config.data.eval.split, "data.eval.split", class_names)
    return functools.partial(
        pipeline.eval_batches,
        source,
        _eval_transform(config),
        batch_size=config.data.eval.batch_size,
        **_reading(config),
    )


def preprocessing_of(config: ConfigDict) -> dict[str, Any]:
    """How this config makes model input from an image, for preprocessing.json."""
    return describe(
        _eval_transform(config),
        channels=config.model.channels,
        mean=tuple(config.data.mean),
        std=tuple(config.data.std),
    )


def _train_batches(config: ConfigDict, source: Source, start_step: int) -> Batches:
    transform = TrainTransform(
        image_size=configuration.image_shape(config),
        crop=config.augment.crop,
        crop_area=tuple(config.augment.crop_area),
        crop_aspect=tuple(config.augment.crop_aspect),
        shift=config.augment.shift,
        flip=config.augment.flip,
    )
    return pipeline.train_batches(
        source,
        transform,
        seed=config.seed,
        batch_size=config.data.train.batch_size,
        start_step=start_step,
        **_reading(config),
    )


def _reading(config: ConfigDict) -> dict[str, Any]:
    """What both kinds of batches take."""
    return {
        "channels": config.model.channels,
        "process_index": jax.process_index(),
        "process_count": jax.process_count(),
        "workers": config.data.workers,
        "skip_bad": config.data.bad_images == "skip",
    }


def _eval_transform(config: ConfigDict) -> EvalTransform:
    return EvalTransform(
        image_size=configuration.image_shape(config),
        resize=config.data.eval.resize,
        crop_fraction=config.data.eval.crop_fraction,
        interpolation=config.data.eval.interpolation,
    )


def _open(
    address: str, split: str, key: str, class_names: Sequence[str] | None = None
) -> Source:
    """`open_source`, with the key in front of what goes wrong."""
    try:
        return open_source(address, split, class_names=class_names)
    except (ValueError, FileNotFoundError) as error:
        where = "data.eval.source" if key == "data.eval.split" else "data.source"
        raise type(error)(f"{where}={address}, {key}={split}: {error}") from error


def _channel_faults(config: ConfigDict) -> list[str]:
    channels = config.model.channels
    faults = []
    if channels not in (1, 3):
        faults.append(f"model.channels={channels} must be 1 or 3.")
    for key in ("mean", "std"):
        values = tuple(config.data[key])
        if len(values) not in (1, channels):
            faults.append(
                f"data.{key}={values} must be one number or {channels}, one a channel."
            )
    return faults


def _augment_faults(config: ConfigDict) -> list[str]:
    faults = []
    for key in ("crop_area", "crop_aspect"):
        values = tuple(config.augment[key])
        if len(values) != 2 or not 0 < values[0] <= values[1]:
            faults.append(
                f"augment.{key}={values} must be two numbers above 0, the "
                "smaller first."
            )
    return faults
