"""What a run writes about itself, and what a later call on its workdir must match."""

import copy
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.data.sources import BUNDLED
from vit_jax.models.described import model_fields
from vit_jax.models.spec import FREE_OF_WEIGHTS
from vit_jax.models.variants import resolve
from vit_jax.train.assemble import Parts
from vit_jax.train.initial import AUTO
from vit_jax.train.stored import stored_config
from vit_jax.workdir import Workdir

_SHAPES = ("model.image_size", "model.channels", "model.num_classes")


def describe_run(workdir: Workdir, parts: Parts) -> None:
    """Writes config, class names and preprocessing: all that predict needs later."""
    config = copy.deepcopy(parts.config)
    for group in (config.data, config.data.eval):
        group.source = _absolute(group.source)
    config.init.weights = _absolute(config.init.weights)
    config.evals.sets = tuple(
        (name, _absolute(source), split) for name, source, split in config.evals.sets
    )
    workdir.write_config(configuration.to_json(config))
    workdir.write_classes(parts.inputs.class_names)
    workdir.write_preprocessing(parts.inputs.preprocessing)
    workdir.write_data(_data(parts))


def with_stored_model(config: ConfigDict, workdir: Workdir) -> ConfigDict:
    """The config with `model.variant=auto`, and the unset keys of the model, filled in
    as the workdir's run had them; otherwise as it is."""
    if config.model.variant != AUTO or not workdir.config.exists():
        return config
    stored = stored_config(workdir)
    config = copy.deepcopy(config)
    config.model.variant = stored.model.variant
    for key, value in stored.model.items():
        if config.model[key] is None and key != "num_classes":
            config.model[key] = value
    return config


def refuse_other_run(workdir: Workdir, parts: Parts) -> list[str]:
    """Sentences about keys that changed since the workdir's checkpoint.

    Raises:
      ValueError: the workdir's model or class names are not those of this run.
      FileNotFoundError: it holds checkpoints but not what describes them.
    """
    workdir.require()
    stored = stored_config(workdir)
    differences = _model_differences(stored, parts.config)
    if differences:
        raise ValueError(
            f"workdir {workdir.path} holds a checkpoint of another model:\n  "
            + "\n  ".join(differences)
            + "\nUse the config that trained it, or another workdir."
        )
    names = workdir.read_classes()
    if names != parts.inputs.class_names:
        raise ValueError(
            f"workdir {workdir.path} was trained on the classes {_listed(names)}, and "
            f"data.source={parts.config.data.source} has "
            f"{_listed(parts.inputs.class_names)}; use the same data, or another "
            "workdir."
        )
    lines = _changed_keys(stored, parts.config)
    return lines + _changed_data(workdir.read_data(), _data(parts))


def _data(parts: Parts) -> dict[str, Any]:
    """What tells the training data from other data of the same classes.

    TFDS names its examples by number, and would read all for their labels.
    """
    figures: dict[str, Any] = {"num_examples": parts.inputs.num_examples}
    if not parts.config.data.source.startswith("tfds:"):
        figures["fingerprint"] = parts.inputs.fingerprint
    return figures


def _changed_data(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A sentence where the data is known to be other than it was."""
    differing = [key for key in before if key in now and before[key] != now[key]]
    if "num_examples" in differing:
        return [
            f"the training data has {now['num_examples']:,} examples and had "
            f"{before['num_examples']:,}: from here on the run takes other examples in "
            "another order"
        ]
    if differing:
        return [
            "the training data has as many examples as it had, but others: their "
            "names, labels or order changed"
        ]
    return []


def _model_differences(stored: ConfigDict, asked: ConfigDict) -> list[str]:
    """Resolved fields that make another model, `key: stored here, asked for now`."""
    before, now = _resolved(stored), _resolved(asked)
    return [
        f"{key}: {before[key]} in the workdir, {now[key]} asked for"
        for key in before
        if before[key] != now[key]
    ]


def _resolved(config: ConfigDict) -> dict[str, Any]:
    spec = resolve(config.model.variant, model_fields(config.model.to_dict()))
    fields = {
        f"model.{name}": value
        for name, value in vars(spec).items()
        if name not in FREE_OF_WEIGHTS and f"model.{name}" not in _SHAPES
    }
    flat = configuration.flatten(config)
    shapes = {key: flat[key] for key in _SHAPES}
    return fields | shapes | {"model.image_size": configuration.image_shape(config)}


def _changed_keys(stored: ConfigDict, asked: ConfigDict) -> list[str]:
    before, now = configuration.flatten(stored), configuration.flatten(asked)
    for flat in (before, now):
        for key in ("data.source", "data.eval.source", "init.weights"):
            flat[key] = _absolute(flat[key])
        flat["evals.sets"] = tuple(
            (name, _absolute(source), split)
            for name, source, split in flat["evals.sets"]
        )
    lines = [
        f"changed since the checkpoint: {key}={now[key]} (it was {before[key]})"
        for key in before
        if before[key] != now[key]
    ]
    if _position_moves(before, now):
        lines.append(
            "another batch size: the run goes on at example number step * batch size "
            "(stage by stage) of the new order, so some examples come again or are "
            "passed over"
        )
    return lines


def _position_moves(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a step has taken other examples now, by the run's or a stage's batch."""
    shares, batches = [], set()
    for flat in (before, now):
        listed = flat["schedule.stages"] or ((0, 1.0, 0),)
        own = [batch or flat["data.train.batch_size"] for _, _, batch in listed]
        lengths = [flat[f"schedule.total_{u}"] for u in ("steps", "epochs", "examples")]
        shares.append(([share for _, share, _ in listed], own, lengths))
        batches.update(own)
    return len(batches) > 1 and shares[0] != shares[1]


def _absolute(source: str) -> str:
    """A local path made independent of the folder that the command ran in."""
    if not source or source in BUNDLED or "://" in source:
        return source
    if not epath.Path(source).expanduser().exists():
        return source
    return str(epath.Path(source).expanduser().resolve())


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown}, … ({len(names)})" if len(names) > 5 else shown
