"""From a config to data: sources, batches, classes and preprocessing."""

import collections
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.data import pipeline
from vit_jax.data.fingerprint import fingerprint
from vit_jax.data.preprocess import describe
from vit_jax.data.sources import Source, class_balanced_share, open_source
from vit_jax.data.transforms import EvalTransform
from vit_jax.train.augment import augment_faults, augment_values, train_transform
from vit_jax.train.faults import channel_faults
from vit_jax.train.stages import Stage

Batches = Iterator[dict[str, np.ndarray]]

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What training and evaluation read.

    Attributes:
      class_names: in the order of the labels; fixed by the training split.
      num_examples: examples of one epoch of training.
      train_batches: (step, stage) -> endless iterator of this process's part of the
        batches that make steps `step` + 1, `step` + 2, … of a stage (None: it is the
        only one): {"image" uint8 [b, Y, X, C], "label" int32 [b], "weight" float32 [b],
        "index" int64 [b]}. Its `close()` ends the workers.
      eval_batches: () -> one pass over the evaluation split, padded with weight 0.
      eval_sets: name -> the same for each set of evals.sets.
      eval_sources: name -> the examples of each of them, "" for the evaluation split.
      preprocessing: JSON-able; how a file becomes uint8 input (`data.preprocess`).
      skipped: unreadable images so far -> how often each was met; it fills while the
        batches are read (data.bad_images=skip).
      train_source: the training examples.
    """

    class_names: tuple[str, ...]
    num_examples: int
    train_batches: Callable[..., Batches]
    eval_batches: Callable[[], Batches]
    eval_sets: dict[str, Callable[[], Batches]]
    eval_sources: dict[str, Source]
    preprocessing: dict[str, Any]
    skipped: collections.Counter[str]
    train_source: Source

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the training examples; see `data.fingerprint`."""
        return fingerprint(self.train_source)


def open_inputs(
    config: ConfigDict, part: tuple[int, int] = (0, 1), *, evaluation: bool = True
) -> Inputs:
    """The data of a run.

    Args:
      part: (index, count) of the equal parts of a batch that this process reads.
      evaluation: False leaves all evaluation splits alone; their passes are then empty.

    Raises:
      ValueError: faults of the data keys or of the data, a line each.
      FileNotFoundError: a source or a split is not there.
    """
    faults = [*channel_faults(config), *augment_faults(config)]
    if faults:
        raise ValueError("\n".join(faults))
    source = _open(config.data.source, config.data.train.split, "data.train.split")
    if config.data.train.fraction < 1:
        source = class_balanced_share(source, config.data.train.fraction, config.seed)
    skipped = collections.Counter()
    sets = {}
    if evaluation:
        sets[""] = open_evaluation(config, source.class_names, part, skipped)
        sets |= _open_sets(config, source.class_names, part, skipped)
    sources = {name: found.source for name, found in sets.items()}
    passes = {name: found.batches for name, found in sets.items()}
    return Inputs(
        class_names=source.class_names,
        num_examples=len(source),
        train_batches=functools.partial(_train_batches, config, source, part, skipped),
        eval_batches=passes.pop("", lambda: iter(())),
        eval_sets=passes,
        eval_sources=sources,
        preprocessing=preprocessing_of(config),
        skipped=skipped,
        train_source=source,
    )


def unread_inputs(config: ConfigDict, num_examples: int) -> Inputs:
    """The inputs of a run whose data is not here: a size, preprocessing, no batches.

    Raises:
      ValueError: faults of the data keys, a line each; model.num_classes is unset.
    """
    faults = [*channel_faults(config), *augment_faults(config)]
    if config.model.num_classes is None:
        faults.append(
            "model.num_classes must be set where the data is not here to be counted."
        )
    if faults:
        raise ValueError("\n".join(faults))
    return Inputs(
        class_names=("",) * config.model.num_classes,
        num_examples=num_examples,
        train_batches=lambda *_: iter(()),
        eval_batches=lambda: iter(()),
        eval_sets={},
        eval_sources={},
        preprocessing=preprocessing_of(config),
        skipped=collections.Counter(),
        train_source=(),
    )


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A set to evaluate: its examples, and () -> one pass over them in batches."""

    source: Source
    batches: Callable[[], Batches]


def open_evaluation(
    config: ConfigDict,
    class_names: Sequence[str],
    part: tuple[int, int] = (0, 1),
    skipped: collections.Counter | None = None,
) -> Evaluation:
    """The evaluation split; the training split isn't touched.

    Args:
      class_names: those of the training run.
      part: see `open_inputs`.
      skipped: counts the unreadable images that are passed over.

    Raises:
      ValueError: the split is empty or has classes that training lacked.
      FileNotFoundError: the source or the split is not there.
    """
    address = config.data.eval.source or config.data.source
    source = _open(address, config.data.eval.split, "data.eval.split", class_names)
    return Evaluation(source, _eval_passes(config, source, part, skipped))


def _open_sets(
    config: ConfigDict,
    class_names: Sequence[str],
    part: tuple[int, int],
    skipped: collections.Counter,
) -> dict[str, Evaluation]:
    """Name -> each set of `evals.sets`."""
    sets = {}
    for name, address, split in config.evals.sets:
        try:
            source = open_source(address, split, class_names=class_names)
        except (ValueError, FileNotFoundError) as error:
            raise _kind(error)(
                f"evals.sets {name}={address}:{split}: {error}"
            ) from error
        sets[name] = Evaluation(source, _eval_passes(config, source, part, skipped))
    return sets


def _eval_passes(
    config: ConfigDict,
    source: Source,
    part: tuple[int, int],
    skipped: collections.Counter | None,
) -> Callable[[], Batches]:
    return functools.partial(
        pipeline.eval_batches,
        source,
        _eval_transform(config),
        batch_size=config.data.eval.batch_size,
        **_reading(config, part, collections.Counter() if skipped is None else skipped),
    )


def training_pass(
    config: ConfigDict,
    source: Source,
    part: tuple[int, int],
    skipped: collections.Counter,
) -> Batches:
    """One pass over the training examples in their own order, made as for training.

    Args:
      part: see `open_inputs`.
      skipped: counts the unreadable images that are passed over.
    """
    return pipeline.eval_batches(
        source,
        train_transform(config),
        batch_size=config.data.eval.batch_size,
        **_reading(config, part, skipped),
    )


def preprocessing_of(config: ConfigDict) -> dict[str, Any]:
    """How this config makes model input from an image, for preprocessing.json."""
    return describe(
        _eval_transform(config),
        channels=config.model.channels,
        mean=tuple(config.data.mean),
        std=tuple(config.data.std),
    )


def _train_batches(
    config: ConfigDict,
    source: Source,
    part: tuple[int, int],
    skipped: collections.Counter,
    start_step: int,
    stage: Stage | None = None,
) -> Batches:
    first_step = stage.first_step if stage else 0
    return pipeline.train_batches(
        source,
        train_transform(config, stage.image_size if stage else None),
        seed=config.seed,
        batch_size=stage.batch_size if stage else config.data.train.batch_size,
        start_step=start_step - first_step,
        first_position=stage.first_position if stage else 0,
        repeats=augment_values(config)["repeats"],
        **_reading(config, part, skipped),
    )


def _reading(
    config: ConfigDict, part: tuple[int, int], skipped: collections.Counter
) -> dict[str, Any]:
    """What both kinds of batches take."""

    def count(name: str) -> None:
        if name not in skipped:
            _LOG.warning("skipped an unreadable image: %s", name)
        skipped[name] += 1

    return {
        "channels": config.model.channels,
        "process_index": part[0],
        "process_count": part[1],
        "workers": config.data.workers,
        "on_bad": count if config.data.bad_images == "skip" else None,
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
        raise _kind(error)(f"{where}={address}, {key}={split}: {error}") from error


def _kind(error: Exception) -> type[Exception]:
    """What to raise with more words: a subclass may take other arguments."""
    return FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
