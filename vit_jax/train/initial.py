"""The weights that a run starts from: found, checked and made to fit."""

import dataclasses
from typing import Any

import jax
from flax import linen as nn
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.models import adapt
from vit_jax.models.described import abstract_params, grid_of, model_fields
from vit_jax.models.spec import FREE_OF_WEIGHTS, Spec
from vit_jax.models.variants import different_fields, nearest, resolve
from vit_jax.weights import Loaded, load

AUTO = "auto"

# Beside noise and first values: the size of images and head, and what stands before it.
_NOT_OF_WEIGHTS = frozenset(
    (*FREE_OF_WEIGHTS, "num_classes", "image_size", "representation_size")
)
# A class token that nothing reads any more is dropped.
_FREE = _NOT_OF_WEIGHTS | {"pool", "class_token"}


@dataclasses.dataclass
class Initial:
    """Weights that fit a run's model, and what was done to make them fit.

    The weights are arrays of the host: no device holds them beside the run's state.
    """

    params: dict[str, Any] | None
    lines: tuple[str, ...]

    def take(self) -> dict[str, Any] | None:
        """The weights, given once and then let go of."""
        params, self.params = self.params, None
        return params


def read(config: ConfigDict, *, resumed: bool) -> Loaded | None:
    """What `init.weights` names; with `model.variant=auto` it fills in the model.

    None where nothing is named, and where a run goes on from its own checkpoint.

    Args:
      config: its model group is changed in place.

    Raises:
      FileNotFoundError: it names nothing.
      ValueError: it is damaged or of no known kind, or is missing and needed.
    """
    if config.init.variant and not config.init.weights:
        raise ValueError(
            f"init.variant={config.init.variant} says what the file of init.weights "
            "holds, which is empty; set it, or leave init.variant empty."
        )
    if resumed or not config.init.weights:
        if config.model.variant == AUTO:
            raise ValueError(
                "model.variant=auto takes the model from init.weights, which is empty; "
                "set it, or name a variant of vit_jax.list_models()."
            )
        return None
    try:
        loaded = load(config.init.weights, variant=config.init.variant or None)
    except (ValueError, FileNotFoundError) as error:
        raise type(error)(f"init.weights={config.init.weights}: {error}") from error
    _settle_model(config, loaded)
    return loaded


def _settle_model(config: ConfigDict, loaded: Loaded) -> None:
    """Fills in `model.variant=auto`, and unset keys of the model with it.

    Noise, such as dropout, is no part of weights: unset, it is the variant's own.
    """
    if config.model.variant != AUTO:
        return
    name = loaded.variant or nearest(loaded.spec, ignored=_NOT_OF_WEIGHTS)
    config.model.variant = name
    for field in different_fields(loaded.spec, resolve(name, {})):
        value = getattr(loaded.spec, field)
        if field not in _NOT_OF_WEIGHTS and config.model[field] is None:
            config.model[field] = value


def fit(
    config: ConfigDict,
    loaded: Loaded,
    model: nn.Module,
    class_names: tuple[str, ...],
) -> Initial:
    """The weights that a run's model takes over, as `init.head` says.

    Args:
      config: with model.variant and model.num_classes filled in.
      loaded: what `read` gave.
      model: the run's.
      class_names: of the training data.

    Raises:
      ValueError: weights are missing or of another shape, all in one list; the model
        would compute something else with them; or a head to be kept doesn't fit.
    """
    spec = resolve(config.model.variant, model_fields(config.model.to_dict()))
    keep_head = _keeps_head(config, loaded, class_names)
    size = configuration.image_shape(config)
    params, report = adapt.adapt(
        loaded.params,
        abstract_params(model, (*size, config.model.channels)),
        old=(loaded.spec, loaded.grid),
        new=(spec, grid_of(model, size)),
        keep_head=keep_head,
    )
    different = _differences(loaded.spec, spec)
    if different:
        raise ValueError("\n".join(different))
    said = (*report.lines(), *(f"note: {note}" for note in loaded.notes))
    lines = [f"init.weights={config.init.weights}: {line}" for line in said]
    return Initial(
        jax.device_get(params), (*lines, *_preprocessing_notes(config, loaded))
    )


def _keeps_head(
    config: ConfigDict, loaded: Loaded, class_names: tuple[str, ...]
) -> bool:
    there = adapt.count_classes(loaded.params)
    wanted = config.model.num_classes
    if config.init.head == "auto":
        return there == wanted and loaded.class_names == class_names
    if config.init.head == "keep" and there != wanted:
        raise ValueError(
            f"init.head=keep: the weights' head has {there} classes and the run "
            f"{wanted}; use init.head=reset, or auto."
        )
    return config.init.head == "keep"


def _differences(old: Spec, new: Spec) -> list[str]:
    """Fields that shapes don't show and that change what the model computes."""
    return [
        f"model.{name}={getattr(new, name)} must be {value}, as in init.weights; "
        "model.variant=auto takes the model from there."
        for name, value in vars(old).items()
        if name not in _FREE and getattr(new, name) != value
    ]


def _preprocessing_notes(config: ConfigDict, loaded: Loaded) -> list[str]:
    """What the new run does otherwise to its images, to be seen before hours pass."""
    notes = []
    for name in ("mean", "std"):
        there = [float(value) for value in loaded.preprocessing[name]]
        here = [float(value) for value in config.data[name]]
        here = here * len(there) if len(here) == 1 else here
        if here != there:
            notes.append(
                f"note: data.{name} is {_listed(here)} here, and {_listed(there)} "
                "where the weights were trained"
            )
    return notes


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
