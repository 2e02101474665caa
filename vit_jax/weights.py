"""From what lies on disk to a model ready to use."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from flax import linen as nn

from vit_jax import trees
from vit_jax.checkpoint import choose_step, restore_params, stored_shapes
from vit_jax.convert.given import Given, held_to
from vit_jax.convert.layout import Weights, build
from vit_jax.convert.source import is_foreign, read
from vit_jax.data.preprocess import check as check_preprocessing
from vit_jax.layers.normalize import normalize
from vit_jax.models.adapt import (
    ZERO_HEAD,
    ZERO_HEAD_NOTE,
    head_is_zero,
    resize_params,
)
from vit_jax.models.described import (
    abstract_params,
    build_model,
    grid_of,
    model_fields,
    trained_shape,
)
from vit_jax.models.preprocessing import Preprocessing
from vit_jax.models.spec import Spec
from vit_jax.models.variants import resolve
from vit_jax.workdir import Workdir, read_json


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A trained model.

    Args:
      model: `model.apply({"params": params}, images)` gives logits [B, V].
      params: its weights.
      preprocessing: how an image file becomes the model's input.
      class_names: in the order of the logits; empty where nobody knows them.
      step: optimizer steps that the weights have behind them; 0 where nobody knows.
      spec: the model in flat words.
      variant: the name that it was made by; None where nobody knows.
      loss: that trained it, "softmax" or "sigmoid": how logits become probabilities.
      notes: what a reader should know of a converted file: what was folded, left out
        or assumed; () for a run.
    """

    model: nn.Module
    params: Any
    preprocessing: dict[str, Any]
    class_names: tuple[str, ...]
    step: int
    spec: Spec
    variant: str | None = None
    loss: str = "softmax"
    notes: tuple[str, ...] = ()

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of patches that the weights are for."""
        return grid_of(self.model, self.preprocessing["image_size"])

    def report(self) -> tuple[str, ...]:
        """What whoever uses the weights should see, a line each, each once."""
        lines = [f"note: {note}" for note in self.notes]
        # A converted file's notes say it already.
        if head_is_zero(self.params) and ZERO_HEAD_NOTE not in self.notes:
            lines.append(ZERO_HEAD)
        return tuple(lines)


def load(
    path: str | os.PathLike,
    checkpoint: str | int = "latest",
    *,
    ema: bool = True,
    variant: str | None = None,
    image_size: Sequence[int] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    **fields: Any,
) -> Loaded:
    """The model of a training workdir, or of any file or folder of known layout.

    Args:
      path: a workdir, or one of its checkpoints (WORKDIR/checkpoints/STEP), or its
        best one (WORKDIR/best); or what `vit_jax convert` reads.
      checkpoint: "latest" (complete) one, "best" by the run's checkpoint.best_metric,
        or a step that is kept.
      ema: whether to take the weights' moving average where the run keeps one
        (train.ema_decay); False: the weights themselves.
      variant, image_size, mean, std, **fields: what a file can't say of itself, as
        `vit_jax.convert.source.read` takes it. A run says all of it; num_classes=0
        leaves its head out.

    Raises:
      FileNotFoundError: nothing is there, or the workdir has no such checkpoint.
      ValueError: it is no known layout, doesn't fit the model or these words, or is
        damaged.
    """
    given = Given.of(variant, image_size, fields, mean, std)
    if is_foreign(path):
        words = {"variant": variant, "image_size": image_size, "mean": mean, "std": std}
        return _converted(read(path, **words, **fields))
    loaded = _run(path, checkpoint, ema)
    if given == Given():
        return loaded
    if given.variant == loaded.variant:
        given = dataclasses.replace(given, variant=None)
    held = held_to(_as_weights(loaded, str(path)), given, str(path))
    if len(held.params) == len(trees.flatten(loaded.params)):
        return loaded
    model = loaded.model.clone(**dict.fromkeys(_parts_of(given)))
    return dataclasses.replace(
        loaded,
        model=model,
        params=trees.unflatten(
            {n: a for n, a in trees.flatten(loaded.params).items() if n in held.params}
        ),
        class_names=held.class_names,
        spec=held.spec,
        notes=held.notes,
    )


def _parts_of(given: Given) -> list[str]:
    """Parts of the model that the caller leaves out."""
    parts = {"num_classes": "head", "representation_size": "pre_logits"}
    return [parts[name] for name in given.left_out]


def _run(path: str | os.PathLike, checkpoint: str | int, ema: bool) -> Loaded:
    """The model of a training run."""
    path = epath.Path(path).expanduser()
    if path.parent.name in ("checkpoints", "best") and path.name.isdecimal():
        return _load(Workdir(path.parent.parent), path.parent, int(path.name), ema)
    if path.name == "best" and Workdir(path.parent).config.exists():
        path, checkpoint = path.parent, "best"
    workdir = Workdir(path)
    workdir.require()
    chosen = choose_step(workdir.checkpoints, workdir.best, checkpoint)
    return _load(workdir, *chosen, ema)


def read_weights(
    path: str | os.PathLike,
    checkpoint: str | int = "latest",
    *,
    ema: bool = True,
    **said: Any,
) -> Weights:
    """The weights at `path` as `convert` writes them: a run's, or any known layout's.

    Args:
      path, checkpoint, ema, **said: as of `load`.

    Raises:
      FileNotFoundError, ValueError: see `load`.
    """
    if is_foreign(path):
        return read(path, **said)
    return _as_weights(load(path, checkpoint, ema=ema, **said), str(path))


def _as_weights(loaded: Loaded, place: str) -> Weights:
    flat = trees.flatten(jax.device_get(loaded.params))
    head = flat.get("head/kernel", flat.get("head/class_token/kernel"))
    # A run's config has these two beside the model's own words.
    said = {
        "num_classes": 0 if head is None else head.shape[-1],
        "image_size": loaded.preprocessing["image_size"][0],
    }
    return Weights(
        layout="orbax",
        spec=dataclasses.replace(loaded.spec, **said),
        params={name: np.asarray(leaf) for name, leaf in flat.items()},
        preprocessing=loaded.preprocessing,
        class_names=loaded.class_names,
        step=loaded.step,
        notes=loaded.notes,
        loss=loaded.loss,
        place=place,
    )


def _converted(weights: Weights) -> Loaded:
    return Loaded(
        model=_made_for(build(weights.spec), weights.preprocessing),
        # Copies: what lies in a file still would change with it.
        params=jax.tree.map(jnp.array, trees.unflatten(weights.params)),
        preprocessing=weights.preprocessing,
        class_names=weights.class_names,
        step=weights.step,
        spec=weights.spec,
        loss=weights.loss,
        notes=weights.notes,
    )


def _load(workdir: Workdir, folder: epath.Path, step: int, ema: bool) -> Loaded:
    workdir.require()
    config = read_json(workdir.config)
    try:
        section, training = config["model"], config["train"]
        dtype, loss = training["compute_dtype"], training["loss"]
        num_classes = section["num_classes"]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{workdir.config} is not the config of a run: it lacks groups or keys "
            f"such as model.num_classes ({error}); restore it from a copy."
        ) from error
    if not isinstance(num_classes, int) or not isinstance(section["variant"], str):
        raise ValueError(
            f"{workdir.config} is damaged: model.variant={section['variant']!r} must "
            f"be a name and model.num_classes={num_classes!r} a number; restore it "
            "from a copy."
        )
    preprocessing = workdir.read_preprocessing()
    names = workdir.read_classes()
    if not 0 < len(names) <= num_classes:
        raise ValueError(
            f"{workdir.classes} is damaged: it has {len(names)} lines for a model of "
            f"{num_classes} classes; restore it from a copy."
        )
    if not all(names):
        raise ValueError(
            f"{workdir.classes} is damaged: it has empty lines; restore it from a copy."
        )
    try:
        check_preprocessing(preprocessing)
        fields = model_fields(section)
        spec = resolve(section["variant"], fields | {"num_classes": num_classes})
        model = build_model(section, num_classes=num_classes, dtype=jnp.dtype(dtype))
        shape = (*preprocessing["image_size"], preprocessing["channels"])
        abstract_params(model, shape)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{workdir.config} or {workdir.preprocessing.name} beside it is damaged: "
            f"{error}; restore it from a copy."
        ) from error
    shapes = [shape, *_stage_shapes(config, shape[2])]
    trained = shape
    if len(shapes) > 1:
        trained = trained_shape(stored_shapes(folder, step), model, shapes)
    _, params = restore_params(folder, abstract_params(model, trained), step, ema=ema)
    params = resize_params(params, spec, grid_of(model, trained), grid_of(model, shape))
    return Loaded(
        model=_made_for(model, preprocessing),
        params=params,
        preprocessing=preprocessing,
        class_names=names,
        step=step,
        spec=spec,
        variant=section["variant"],
        loss=loss,
    )


def _made_for(model: nn.Module, preprocessing: Mapping[str, Any]) -> nn.Module:
    """The model, which now says what images its weights were trained on."""
    return model.clone(preprocessing=Preprocessing.of(preprocessing))


def _stage_shapes(config: Any, channels: int) -> list[tuple[int, int, int]]:
    """Image shapes that the run of this config may have trained on."""
    sizes = [stage[0] for stage in config.get("schedule", {}).get("stages", ())]
    sizes = [size if isinstance(size, list) else [size] for size in sizes]
    return [(size[0], size[-1], channels) for size in sizes]


def make_logits(
    model: nn.Module, preprocessing: Mapping[str, Any]
) -> Callable[[Any, jax.Array], jax.Array]:
    """(params, uint8 images [B, Y, X, C]) -> logits [B, V]; to be jitted by the caller.

    Args:
      preprocessing: has "mean" and "std" of each channel, on a scale from 0 to 1.
    """

    def logits_of(params: Any, images: jax.Array) -> jax.Array:
        floats = normalize(images, preprocessing["mean"], preprocessing["std"])
        return model.apply({"params": params}, floats)

    return logits_of
