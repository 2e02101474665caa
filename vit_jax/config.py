"""Every configuration key, once: default, unit, range and meaning.

A recipe in `configs/` calls `default_config()` and changes values; it never adds a key.
The command line changes values on top (`--config.schedule.base_learning_rate=3e-4`).
Keys whose default is a type (`int`, `float`) start unset; what unset means is said in
their description.
"""

import ast
import dataclasses
import difflib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict


@dataclasses.dataclass(frozen=True)
class Key:
    """One configuration key.

    `default` is a value, or a type for a key that starts unset. `minimum` and `maximum`
    bound numbers (each entry, for tuples); `choices` lists all that a string may be.
    """

    name: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    @property
    def type(self) -> type:
        """The type that a value of this key has."""
        return self.default if isinstance(self.default, type) else type(self.default)

    @property
    def starts_unset(self) -> bool:
        """Whether the key has no value until a recipe or the command line gives one."""
        return isinstance(self.default, type)


KEYS = (
    Key(
        "seed",
        0,
        "source of every random number of the run",
        minimum=0,
        maximum=2**31 - 1,
    ),
    # The network.
    Key("model.variant", "B/16", "a name that vit_jax.list_models() gives"),
    Key(
        "model.image_size",
        (224,),
        "pixels the model sees: one number for a square, or (rows, columns)",
        minimum=1,
    ),
    Key("model.channels", 3, "1 for grey images, 3 for colour", minimum=1, maximum=3),
    Key(
        "model.num_classes",
        int,
        "outputs of the head; unset: as many as the training data has classes",
        minimum=1,
    ),
    Key("model.width", int, "size of a token; unset: the variant's own", minimum=1),
    Key("model.depth", int, "encoder blocks; unset: the variant's own", minimum=1),
    Key("model.num_heads", int, "attention heads; unset: the variant's own", minimum=1),
    Key("model.mlp_dim", int, "width of the MLPs; unset: the variant's own", minimum=1),
    Key(
        "model.patch_size",
        int,
        "side of a patch in pixels; unset: the variant's own",
        minimum=1,
    ),
    Key(
        "model.position",
        str,
        "position embedding; unset: the variant's own",
        choices=(
            "none",
            "learned_1d",
            "learned_2d",
            "sincos_2d",
            "sincos_2d_mae",
            "relative",
            "rope",
        ),
    ),
    Key(
        "model.pool",
        str,
        "what the head reads: the class token, the mean of all patch tokens or an "
        "attention pooling; unset: the variant's own",
        choices=("cls", "gap", "map"),
    ),
    Key(
        "model.gelu",
        str,
        "form of the activation; unset: the variant's own",
        choices=("tanh", "exact", "quick"),
    ),
    Key(
        "model.norm_epsilon",
        float,
        "what norms add to the variance; unset: the variant's own",
        minimum=0,
    ),
    Key(
        "model.representation_size",
        int,
        "width of the tanh layer before the head, for pretraining; 0: none; unset: the "
        "variant's own",
        minimum=0,
    ),
    Key(
        "model.head_init_std",
        float,
        "standard deviation of the head's first weights; 0: zeros; unset: the "
        "variant's own",
        minimum=0,
    ),
    Key(
        "model.head_bias_init",
        float,
        "first value of the head's bias; -6.9 or -10 go with sigmoid losses; unset: "
        "the variant's own",
    ),
    Key(
        "model.dropout",
        float,
        "share of activations dropped after the embedding, attention output and MLP "
        "layers; unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "model.attention_dropout",
        float,
        "share of attention weights dropped; unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "model.stochastic_depth",
        float,
        "share of residual branches dropped at the last block, rising linearly from 0; "
        "unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "model.patch_dropout",
        float,
        "share of patches left out of each training image; unset: the variant's own",
        minimum=0,
        maximum=0.999,
    ),
    # The data.
    Key(
        "data.source",
        "",
        "a folder of class folders, `digits` (bundled) or `tfds:NAME`",
    ),
    Key(
        "data.mean",
        (0.5,),
        "what is subtracted from pixels on a scale from 0 to 1: one number, or one a "
        "channel",
        minimum=0,
        maximum=1,
    ),
    Key(
        "data.std",
        (0.5,),
        "what they are then divided by: one number, or one a channel",
        minimum=0.001,
    ),
    Key(
        "data.bad_images",
        "error",
        "what an unreadable image does: it ends the run, or it keeps its place in the "
        "batch with weight 0 and is listed",
        choices=("error", "skip"),
    ),
    Key("data.train.split", "train", "split that trains"),
    Key(
        "data.train.batch_size",
        512,
        "examples of one optimizer step over all devices",
        minimum=1,
    ),
    Key(
        "data.train.fraction",
        1.0,
        "share of the training split to train on, with the classes in proportion",
        minimum=1e-6,
        maximum=1,
    ),
    Key("data.eval.source", "", "where evaluation reads; empty: data.source"),
    Key("data.eval.split", "test", "split that evaluates"),
    Key(
        "data.eval.resize",
        "stretch",
        "how an image reaches the model's size: the whole image squeezed, or its "
        "middle with the aspect kept",
        choices=("stretch", "center"),
    ),
    Key(
        "data.eval.crop_fraction",
        0.875,
        "share of the shorter side that the middle keeps (center)",
        minimum=0.01,
        maximum=1,
    ),
    Key(
        "data.eval.interpolation",
        "bilinear",
        "filter that resizes, widened over the area that a new pixel stands for",
        choices=("bilinear", "bicubic"),
    ),
    Key(
        "data.eval.batch_size",
        512,
        "examples of one evaluation step over all devices; changes no result",
        minimum=1,
    ),
    Key(
        "data.workers",
        0,
        "processes that read and decode; 0: the main process does",
        minimum=0,
    ),
    # What happens to training images.
    Key(
        "augment.crop",
        "random_resized",
        "how a training image reaches the model's size: a random area and aspect "
        "resized, the whole image resized, or the whole image resized and shifted",
        choices=("random_resized", "resize", "shift"),
    ),
    Key(
        "augment.crop_area",
        (0.05, 1.0),
        "smallest and largest share of the image's area (random_resized)",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.crop_aspect",
        (0.75, 1.3333),
        "smallest and largest columns / rows of the area (random_resized)",
        minimum=0.01,
        maximum=100,
    ),
    Key("augment.shift", 0, "largest shift in pixels, each way (shift)", minimum=0),
    Key(
        "augment.flip",
        0.5,
        "probability of mirroring left and right",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.preset",
        "custom",
        "a published set for the augment keys below, which then keep their defaults: "
        "AugReg's levels, or DeiT's; custom: the keys themselves",
        choices=(
            "custom",
            "none",
            "light1",
            "light2",
            "medium1",
            "medium2",
            "strong1",
            "strong2",
            "deit",
        ),
    ),
    Key(
        "augment.randaugment_layers",
        0,
        "operations of RandAugment for each image; 0: off",
        minimum=0,
        maximum=10,
    ),
    Key(
        "augment.randaugment_magnitude",
        9.0,
        "their strength on torchvision's scale, whose end is 30",
        minimum=0,
        maximum=90,
    ),
    Key(
        "augment.randaugment_std",
        0.0,
        "standard deviation of the strength of each operation",
        minimum=0,
        maximum=30,
    ),
    Key(
        "augment.randaugment_probability",
        1.0,
        "probability of each operation to be applied",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.mixup",
        0.0,
        "parameter of the Beta distribution of Mixup's shares; 0: off",
        minimum=0,
    ),
    Key(
        "augment.cutmix",
        0.0,
        "parameter of the Beta distribution of CutMix's shares; 0: off",
        minimum=0,
    ),
    Key(
        "augment.cutmix_probability",
        0.5,
        "share of steps with CutMix rather than Mixup, where both are on",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.erasing",
        0.0,
        "probability that a rectangle of an image becomes noise",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.label_smoothing",
        0.0,
        "share of the target spread over all classes",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "augment.jitter_brightness",
        0.0,
        "brightness is multiplied by 1 - this to 1 + this; 0: off",
        minimum=0,
        maximum=2,
    ),
    Key("augment.jitter_contrast", 0.0, "likewise", minimum=0, maximum=2),
    Key("augment.jitter_saturation", 0.0, "likewise", minimum=0, maximum=2),
    Key(
        "augment.jitter_hue",
        0.0,
        "hue turns by up to this share of the colour circle, each way; 0: off",
        minimum=0,
        maximum=0.5,
    ),
    # How weights move.
    Key("optimizer.name", "adamw", "rule", choices=("adamw", "sgd")),
    Key(
        "optimizer.beta1",
        0.9,
        "decay of the first moment (adamw)",
        minimum=0,
        maximum=0.9999,
    ),
    Key(
        "optimizer.beta2",
        0.999,
        "decay of the second moment (adamw)",
        minimum=0,
        maximum=0.99999,
    ),
    Key("optimizer.momentum", 0.9, "momentum (sgd)", minimum=0, maximum=0.9999),
    Key(
        "optimizer.weight_decay",
        0.0,
        "decay of kernels at each step, times the learning rate",
        minimum=0,
    ),
    Key(
        "optimizer.clip_norm",
        1.0,
        "largest global norm of the gradient; 0: no clipping",
        minimum=0,
    ),
    Key(
        "schedule.base_learning_rate",
        1e-3,
        "peak rate at base_batch_size",
        minimum=0,
    ),
    Key(
        "schedule.base_batch_size",
        0,
        "the peak is base_learning_rate * batch_size / this; 0: not scaled",
        minimum=0,
    ),
    Key(
        "schedule.decay",
        "cosine",
        "how the rate falls after the warmup",
        choices=("cosine", "linear", "constant"),
    ),
    Key("schedule.total_steps", int, "optimizer steps; or set total_epochs", minimum=1),
    Key("schedule.total_epochs", float, "passes over the data", minimum=0),
    Key("schedule.warmup_steps", 0, "steps of linear rise from 0", minimum=0),
    Key(
        "schedule.warmup_share",
        0.0,
        "the same as a share of all steps; 0.05 to 0.1 is usual",
        minimum=0,
        maximum=0.999,
    ),
    # How a step runs.
    Key(
        "train.compute_dtype",
        "float32",
        "type of activations; weights, loss and norms stay float32",
        choices=("float32", "bfloat16"),
    ),
    Key(
        "train.loss",
        "softmax",
        "softmax or sigmoid cross-entropy",
        choices=("softmax", "sigmoid"),
    ),
    Key("mesh.data", -1, "devices that share the batch; -1: all that are left"),
    Key("mesh.fsdp", 1, "devices that also share the weights", minimum=1),
    Key("mesh.tensor", 1, "devices that share each layer", minimum=1),
    # What is kept and written.
    Key(
        "checkpoint.every_steps",
        1000,
        "optimizer steps between saves; the last step is always saved; 0: only there",
        minimum=0,
    ),
    Key("checkpoint.keep", 2, "newest checkpoints that stay", minimum=1),
    Key(
        "evals.every_steps",
        0,
        "optimizer steps between evaluations; 0: only after the last step",
        minimum=0,
    ),
    Key("log.every_steps", 50, "optimizer steps between metrics", minimum=1),
    Key("log.tensorboard", True, "whether to write TensorBoard files"),
    Key("log.progress", True, "whether to draw a progress bar"),
)

# Steps, sizes and counts are 32-bit numbers on the devices.
_LARGEST_INT = 2**31 - 1
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
_BY_NAME = {key.name: key for key in KEYS}


def default_config() -> ConfigDict:
    """A locked ConfigDict with every key at its default."""
    tree: dict[str, Any] = {}
    for key in KEYS:
        *groups, leaf = key.name.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[leaf] = (
            config_dict.placeholder(key.type) if key.starts_unset else key.default
        )
    return ConfigDict(tree).lock()


def override(config: ConfigDict, assignments: Mapping[str, str]) -> list[str]:
    """Sets keys from text, as the command line gives them; returns the faults.

    Args:
      config: changed in place.
      assignments: key -> text, such as `{"model.dropout": "0.1"}`.

    Returns:
      One sentence for each assignment that could not be made; empty when all were.
    """
    faults = []
    for name, text in assignments.items():
        if name not in _BY_NAME:
            faults.append(_unknown(name))
            continue
        try:
            value = _parse(_BY_NAME[name], text)
        except (ValueError, SyntaxError, TypeError, OverflowError):
            faults.append(f"{name}={text} must be {_wanted(_BY_NAME[name])}.")
            continue
        config.update_from_flattened_dict({name: value})
    return faults


def check(config: ConfigDict) -> list[str]:
    """All that the values alone can get wrong, one sentence each; empty when sound."""
    faults = []
    for name, value in flatten(config).items():
        key = _BY_NAME[name]
        if value is not None and not _holds(key, value):
            faults.append(f"{name}={shown(value)} must be {_wanted(key)}.")
    faults.extend(_cross_check(config))
    return faults


def to_json(config: ConfigDict) -> str:
    """The config as JSON text, which `from_json` reads back."""
    return json.dumps(config.to_dict(), indent=2)


def from_json(text: str) -> ConfigDict:
    """The config that `to_json` wrote; see `from_values`."""
    return from_values(json.loads(text))


def from_values(values: Mapping[str, Any]) -> ConfigDict:
    """The config with these values, groups nested; keys that lack get their defaults.

    Raises:
      ValueError: it is no mapping, holds a key that does not exist, or a value of
        another type.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"a config is a mapping of keys, not {type(values).__name__}.")
    config = default_config()
    flat = _flatten_dict(values)
    unknown = [_unknown(name) for name in flat if name not in _BY_NAME]
    if unknown:
        raise ValueError("\n".join(unknown))
    for name, value in flat.items():
        value = tuple(value) if isinstance(value, list) else value
        try:
            config.update_from_flattened_dict({name: value})
        except TypeError as error:
            wanted = _wanted(_BY_NAME[name])
            raise ValueError(f"{name}={shown(value)} must be {wanted}.") from error
    return config


def flatten(config: ConfigDict) -> dict[str, Any]:
    """Dotted key -> value, in the order of `KEYS`; unset keys are None."""
    values = _flatten_dict(config.to_dict())
    return {key.name: values[key.name] for key in KEYS}


def image_shape(config: ConfigDict) -> tuple[int, int]:
    """(rows, columns) in pixels from `model.image_size`, one number or two."""
    size = tuple(config.model.image_size)
    return (size[0], size[0]) if len(size) == 1 else size


def describe() -> str:
    """Every key with default and meaning, for people."""
    lines = []
    for key in KEYS:
        default = "unset" if key.starts_unset else shown(key.default)
        choices = f" ({' | '.join(key.choices)})" if key.choices else ""
        lines.append(f"  {key.name} = {default}{choices}\n      {key.meaning}")
    return "\n".join(lines)


def _flatten_dict(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flatten_dict(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.5)
    leaf = name.rsplit(".", 1)[-1]
    same_leaf = [known for known in _BY_NAME if known.rsplit(".", 1)[-1] == leaf]
    meant = (same_leaf or close)[:1]
    hint = f"did you mean {meant[0]}?" if meant else "`vit_jax config` lists them."
    return f"{name} is not a configuration key; {hint}"


def _parse(key: Key, text: str) -> Any:
    """The value that `text` spells for `key`; raises if it spells none."""
    if key.starts_unset and text in ("", "None", "unset"):
        return None
    if key.type is str:
        return text
    if key.type is bool:
        if text.lower() not in _BOOLEANS:
            raise ValueError(text)
        return _BOOLEANS[text.lower()]
    value = ast.literal_eval(text.strip())
    if key.type is tuple:
        value = tuple(value) if isinstance(value, tuple | list) else (value,)
        wanted = type(key.default[0])
        return tuple(_number(wanted, entry) for entry in value)
    return _number(key.type, value)


def _number(wanted: type, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(value)
    if wanted is int and value != int(value):
        raise ValueError(value)
    return wanted(value)


def _holds(key: Key, value: Any) -> bool:
    if key.choices:
        return value in key.choices
    if isinstance(value, bool | str):
        return True
    entries: Iterable[float] = value if isinstance(value, tuple) else (value,)
    low = -float("inf") if key.minimum is None else key.minimum
    high = float("inf") if key.maximum is None else key.maximum
    return all(
        isinstance(entry, int | float)
        and math.isfinite(entry)
        and low <= entry <= high
        and not (isinstance(entry, int) and entry > _LARGEST_INT)
        for entry in entries
    )


def _wanted(key: Key) -> str:
    """What a value of `key` must be, in words."""
    if key.choices:
        return "one of " + ", ".join(key.choices)
    kind = {int: "a whole number", float: "a number", bool: "true or false"}
    kind |= {str: "text", tuple: f"numbers such as {shown(key.default)}"}
    words = kind[key.type]
    if key.minimum is not None and key.maximum is not None:
        return f"{words} from {key.minimum:g} to {key.maximum:g}"
    if key.minimum is not None:
        return f"{words}, {key.minimum:g} or more"
    return words


def shown(value: Any) -> str:
    """A value as the command line would spell it."""
    return value if isinstance(value, str) else repr(value).replace(" ", "")


def _cross_check(config: ConfigDict) -> list[str]:
    """Faults of several keys together."""
    faults = []
    steps, epochs = config.schedule.total_steps, config.schedule.total_epochs
    if (steps is None) == (epochs is None):
        faults.append(
            f"schedule.total_steps={steps} and schedule.total_epochs={epochs}: "
            "exactly one of them must be set; the value unset takes one back, as in "
            "--config.schedule.total_epochs=unset."
        )
    if config.schedule.warmup_steps and config.schedule.warmup_share:
        faults.append(
            f"schedule.warmup_steps={config.schedule.warmup_steps} and "
            f"schedule.warmup_share={config.schedule.warmup_share}: at most one of "
            "them may be above 0; take the other back with "
            "--config.schedule.warmup_share=0 or --config.schedule.warmup_steps=0."
        )
    if epochs == 0:
        faults.append("schedule.total_epochs=0.0 must be above 0.")
    if len(config.model.image_size) not in (1, 2):
        faults.append(
            f"model.image_size={shown(tuple(config.model.image_size))} must be one "
            "number (a square) or two (rows, columns)."
        )
    if not config.data.source:
        faults.append(
            "data.source is empty; name a folder of class folders, digits or tfds:NAME."
        )
    return faults
