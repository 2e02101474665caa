"""What a run writes about itself, and what a later call on its workdir must match."""

import json

from vit_jax import config as configuration
from vit_jax.train.assemble import Parts
from vit_jax.workdir import Workdir, read_json


def describe_run(workdir: Workdir, parts: Parts) -> None:
    """Writes config, class names and preprocessing: all that predict needs later."""
    workdir.write_config(configuration.to_json(parts.config))
    workdir.write_classes(parts.inputs.class_names)
    workdir.write_preprocessing(parts.inputs.preprocessing)


def refuse_other_run(workdir: Workdir, parts: Parts) -> None:
    """Refuses to go on from another model's checkpoint or with other classes.

    Keys that change how training goes on, such as the rate, may differ.

    Raises:
      ValueError: the workdir's model or class names are not those of this run.
      FileNotFoundError: it holds checkpoints but not what describes them.
    """
    workdir.require()
    stored = configuration.from_json(json.dumps(read_json(workdir.config)))
    differences = _differences(stored, parts.config)
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


def _differences(stored, asked) -> list[str]:
    """Model keys that differ, `key: stored here, asked for now`."""
    before, now = configuration.flatten(stored), configuration.flatten(asked)
    return [
        f"{key}: {before[key]} in the workdir, {now[key]} asked for"
        for key in before
        if key.startswith("model.") and before[key] != now[key]
    ]


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown}, … ({len(names)})" if len(names) > 5 else shown
