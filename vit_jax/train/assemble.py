"""From a config to the parts of a run, or to all that is wrong with it at once.

What only the whole config, the data and the devices can tell is checked here, before
anything is compiled.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import optax
from flax import linen as nn
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax import trees
from vit_jax.models.described import abstract_params, model_fields
from vit_jax.models.spec import Spec
from vit_jax.models.variants import resolve
from vit_jax.train import durations, features, initial
from vit_jax.train import mesh as meshes
from vit_jax.train.augment import with_preset
from vit_jax.train.details import real_labels
from vit_jax.train.faults import Faults, batch_faults, best_faults
from vit_jax.train.initial import Initial
from vit_jax.train.inputs import Inputs, open_inputs
from vit_jax.train.optimizer import make_optimizer
from vit_jax.train.sized import SizedParts, Traced, sized_parts, traced_model
from vit_jax.train.stages import Stage, plan_stages
from vit_jax.train.state import Init, TrainState
from vit_jax.weights import Loaded, make_logits


@dataclasses.dataclass(frozen=True)
class Parts:
    """All that a run is made of; `config` has its unset keys filled in.

    `init` makes fresh weights from a key; `state` is abstract: shapes, types and
    shardings, for images of `image_shape`, the model's. `at(image_size)` gives what
    belongs to another size, that of a stage. `initial` is None where a run starts from
    fresh weights or goes on from a checkpoint.
    """

    config: ConfigDict
    mesh: meshes.AnyMesh
    inputs: Inputs
    model: nn.Module
    spec: Spec
    init: Init
    state: TrainState
    image_shape: tuple[int, int, int]
    num_params: int
    total_steps: int
    peak_learning_rate: float
    optimizer: optax.GradientTransformation
    stages: tuple[Stage, ...]
    initial: Initial | None
    real_labels: list[frozenset[int]] | None
    at: Callable[[tuple[int, int]], SizedParts]
    logits_of: Callable[[Any, jax.Array], jax.Array]

    @property
    def train_step(self) -> Callable:
        """The step for images of the model's size."""
        return self.at(self.image_shape[:2]).train_step


def assemble(
    config: ConfigDict,
    *,
    faults: Sequence[str] = (),
    resumed: bool = False,
    make_mesh: Callable[..., meshes.AnyMesh] = meshes.make_mesh,
    open_data: Callable[..., Inputs] = open_inputs,
) -> Parts:
    """The parts of a run.

    Args:
      config: left as it is.
      faults: what is already known to be wrong, to be reported with the rest.
      resumed: whether the run has a checkpoint; init.weights isn't read then.
      make_mesh: gives the mesh of the config's sizes; another where the devices are
        not here.
      open_data: as `open_inputs`; another where the data is not here.

    Raises:
      ValueError: one message with all faults, a line each.
    """
    config = with_preset(config)
    wrong = configuration.check(config)
    found = Faults([*faults, *wrong])
    mesh = found.attempt(lambda: make_mesh(**config.mesh), "mesh.")
    part = found.attempt(lambda: meshes.batch_part(mesh)) if mesh else None
    inputs = found.attempt(
        lambda: open_data(
            config, part or (0, 1), evaluation=bool(config.data.eval.split)
        ),
        *("data.", "augment.", "model.image_size", "model.channels"),
    )
    if inputs is not None:
        found.extend(_settle_classes(config, inputs))
    loaded = found.attempt(lambda: initial.read(config, resumed=resumed), "init.")
    # Weights that can't be read leave model.variant=auto, of which nothing can be said.
    model = (
        None
        if config.model.variant == initial.AUTO
        else found.attempt(
            lambda: traced_model(config), "model.", "train.compute_dtype"
        )
    )
    size = None if inputs is None else inputs.num_examples
    keys = ("schedule.", "data.train.batch_size")
    total_steps = found.attempt(lambda: durations.total_steps(config, size), *keys)
    schedule = found.attempt(
        lambda: durations.make_schedule(config, size, total_steps), *keys
    )
    stages = found.attempt(
        lambda: _stages(config, model, total_steps), *keys, "model.image_size"
    )
    plain = schedule
    if schedule is not None and stages is not None:
        schedule = durations.make_stage_schedule(config, plain, size, stages)
    optimizer = found.attempt(
        lambda: _optimizer(config, model, schedule, plain),
        "optimizer.",
        "schedule.",
        "train.freeze",
    )
    weights = found.attempt(
        lambda: _initial(config, loaded, model, inputs), "init.", "model.", "data."
    )
    labels = found.attempt(lambda: real_labels(config), "evals.")
    if model is not None:
        found.extend(features.cache_faults(config, model.params))
    if mesh is not None:
        found.extend(batch_faults(config, mesh))
    found.extend(best_faults(config))
    configuration.refuse([*faults, *wrong, *found])
    run = _Run(config, mesh, inputs, model, schedule, optimizer, stages, labels)
    return _parts(run, weights)


def _settle_classes(config: ConfigDict, inputs: Inputs) -> list[str]:
    """Fills in model.num_classes, or says why it can't be what is asked for."""
    count = len(inputs.class_names)
    if config.model.num_classes is None:
        config.model.num_classes = count
    if config.model.num_classes < count:
        return [
            f"model.num_classes={config.model.num_classes} must be at least the "
            f"{count} classes of data.source={config.data.source}; leave it unset to "
            "take as many as the data has."
        ]
    return []


def _image_shape(config: ConfigDict) -> tuple[int, int, int]:
    return (*configuration.image_shape(config), config.model.channels)


def _optimizer(
    config: ConfigDict,
    model: Traced | None,
    schedule: optax.Schedule | None,
    plain: optax.Schedule | None,
) -> optax.GradientTransformationExtraArgs | None:
    if model is None or schedule is None:
        return None
    return make_optimizer(
        schedule,
        model.params,
        peak=durations.peak_learning_rate(config),
        freeze=config.train.freeze,
        decay_schedule=plain,
        **config.optimizer,
    )


def _stages(
    config: ConfigDict, model: Traced | None, total_steps: int | None
) -> tuple[Stage, ...] | None:
    """The stages, the model tried at each size; None where nobody knows the end."""
    if model is None or total_steps is None:
        return None
    stages = plan_stages(config, total_steps)
    own_size = configuration.image_shape(config)
    for size in {stage.image_size for stage in stages} - {own_size}:
        try:
            abstract_params(model.module, (*size, config.model.channels))
        except ValueError as error:
            raise ValueError(f"schedule.stages: {error}") from error
    return stages


def _initial(
    config: ConfigDict, loaded: Loaded | None, model: Traced | None, inputs: Inputs
) -> Initial | None:
    if loaded is None or model is None or inputs is None:
        return None
    return initial.fit(config, loaded, model.module, inputs.class_names)


@dataclasses.dataclass(frozen=True)
class _Run:
    """What was found sound, to be put together."""

    config: ConfigDict
    mesh: meshes.AnyMesh
    inputs: Inputs
    model: Traced
    schedule: optax.Schedule
    optimizer: optax.GradientTransformationExtraArgs
    stages: tuple[Stage, ...]
    real_labels: list[frozenset[int]] | None


def _parts(run: _Run, weights: Initial | None) -> Parts:
    """Puts together what was found sound."""
    config, model = run.config, run.model
    image_shape = _image_shape(config)
    at = functools.cache(
        functools.partial(
            sized_parts,
            config,
            run.mesh,
            run.inputs.preprocessing,
            model,
            run.optimizer,
            run.schedule,
        )
    )
    return Parts(
        config=config,
        mesh=run.mesh,
        inputs=run.inputs,
        model=model.module,
        spec=resolve(config.model.variant, model_fields(config.model.to_dict())),
        init=model.init,
        state=at(image_shape[:2]).state,
        image_shape=image_shape,
        num_params=trees.count(model.params),
        total_steps=run.stages[-1].last_step,
        peak_learning_rate=durations.peak_learning_rate(config),
        optimizer=run.optimizer,
        stages=run.stages,
        initial=weights,
        real_labels=run.real_labels,
        at=at,
        logits_of=make_logits(model.module, run.inputs.preprocessing),
    )
