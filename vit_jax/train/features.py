"""A frozen model's features of all training images, computed once and kept in memory.

With all but the head frozen and images that never change, a step needs the features
alone: an epoch then costs what the head costs, and gives what it gave before.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from ml_collections import ConfigDict

from vit_jax import trees
from vit_jax.layers.normalize import normalize
from vit_jax.models.described import model_fields
from vit_jax.models.variants import resolve
from vit_jax.train import mesh as meshes
from vit_jax.train import mixing
from vit_jax.train.augment import augment_values, examples_at
from vit_jax.train.inputs import Inputs, training_pass
from vit_jax.train.stages import Stage

_CHANGES = (
    "flip",
    "randaugment_layers",
    "mixup",
    "cutmix",
    "erasing",
    "jitter_brightness",
    "jitter_contrast",
    "jitter_saturation",
    "jitter_hue",
)
_NOISE = ("dropout", "attention_dropout", "stochastic_depth", "patch_dropout")
_HEAD = "head/"
_KEPT = ("image", "label", "weight")


def cache_faults(config: ConfigDict, params: Any) -> list[str]:
    """Keys that stand against `train.cache_features`; [] when it is off or sound.

    Args:
      params: tree of the model's parameters, or of their shapes.
    """
    if not config.train.cache_features:
        return []
    augment = augment_values(config)
    needs = [
        f"augment.{key}={augment[key]} must be 0" for key in _CHANGES if augment[key]
    ]
    if augment["crop"] != "resize":
        needs.insert(0, f"augment.crop={augment['crop']} must be resize")
    spec = vars(resolve(config.model.variant, model_fields(config.model.to_dict())))
    needs += [f"model.{key}={spec[key]} must be 0" for key in _NOISE if spec.get(key)]
    if config.schedule.stages:
        needs.append("schedule.stages must be empty")
    if jax.process_count() > 1:
        needs.append(f"there must be 1 process, not {jax.process_count()}")
    frozen = trees.flatten(trees.mask(params, config.train.freeze))
    moving = [n for n, kept in frozen.items() if not kept and not n.startswith(_HEAD)]
    if moving:
        needs.append(
            f"train.freeze must hold all but the head, as '(?!head/).*' does; "
            f"{len(moving)} others would train, such as {moving[0]}"
        )
    return [f"train.cache_features=true needs features that stay: {n}." for n in needs]


class CachedModel:
    """Stands for the model in a training step whose images are features: its head."""

    def __init__(self, model: nn.Module):
        self._head = model.head.clone()

    def apply(self, variables: Any, features: jax.Array, **_: Any) -> jax.Array:
        """Logits [B, V] of features [B, D]; there is no noise that a key would draw."""
        return self._head.apply({"params": variables["params"]["head"]}, features)


def prepare_features(
    batch: dict[str, jax.Array],
    key: jax.Array,
    *,
    num_classes: int,
    label_smoothing: float,
    **_: Any,
) -> tuple[jax.Array, jax.Array]:
    """(features [B, D], targets [B, V]), as `mixing.prepare` makes images and targets.

    Args:
      batch: "image" is the features.
      key: not used; nothing is drawn.
      num_classes: V.
      label_smoothing: share of a target spread over all classes.
    """
    targets = mixing.targets_of(batch["label"], num_classes, label_smoothing)
    return batch["image"], targets


def compute_features(
    config: ConfigDict,
    inputs: Inputs,
    model: nn.Module,
    params: Any,
    mesh: jax.sharding.Mesh,
    heed: Callable[[], object] = lambda: None,
) -> dict[str, np.ndarray]:
    """{"image" float32 [N, D], "label" [N], "weight" [N]} of all training examples.

    An unreadable image keeps its place with weight 0.

    Args:
      heed: called before each batch; what it raises ends the computing.
    """
    headless = model.clone(head=None)
    dtype = jnp.dtype(config.train.compute_dtype)
    mean, std = inputs.preprocessing["mean"], inputs.preprocessing["std"]

    # Replicated, so that every process gets the rows of all.
    @functools.partial(jax.jit, out_shardings=meshes.replicated(mesh))
    def with_features(params: Any, batch: dict[str, Any]) -> dict[str, jax.Array]:
        images = normalize(batch["image"], mean, std, dtype)
        return batch | {"image": headless.apply({"params": params}, images)}

    rows: list[dict[str, np.ndarray]] = []
    part = meshes.batch_part(mesh)
    for batch in training_pass(config, inputs.train_source, part, inputs.skipped):
        heed()
        placed = meshes.put_batch({name: batch[name] for name in _KEPT}, mesh)
        rows.append(jax.device_get(with_features(params, placed)))
    count = inputs.num_examples
    return {name: np.concatenate([row[name] for row in rows])[:count] for name in _KEPT}


def cached_batches(
    config: ConfigDict, features: dict[str, np.ndarray], part: tuple[int, int]
) -> Callable[[int, Stage], Iterator[dict[str, np.ndarray]]]:
    """(step, stage) -> the batches that `Inputs.train_batches` gives, of features.

    Args:
      features: as `compute_features` gives them.
      part: (index, count) of the equal parts of a batch that this process reads.
    """
    count = len(features["label"])

    def batches(start_step: int, stage: Stage) -> Iterator[dict[str, np.ndarray]]:
        step = start_step
        while True:
            size = stage.batch_size // part[1]
            first = step * stage.batch_size + part[0] * size
            positions = first + np.arange(size)
            chosen = examples_at(config, positions, count)
            batch = {name: values[chosen] for name, values in features.items()}
            yield batch | {"index": positions}
            step += 1

    return batches
