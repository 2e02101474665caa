"""What is wrong with a config, collected while its parts are made."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.evals.classification import FIGURES
from vit_jax.train import mesh as meshes
from vit_jax.train.best import best_mode

T = TypeVar("T")


class Faults(list):
    """Sentences about what is wrong, collected while going on as far as possible.

    Args:
      wrong: faults of single values, which stand in the way of parts made of them; a
        key that doesn't exist stands in nobody's way.
    """

    def __init__(self, wrong: Sequence[str]):
        super().__init__()
        self._wrong = tuple(fault for fault in wrong if "=" in fault.split(" ")[0])

    def attempt(self, make: Callable[[], T], *prefixes: str) -> T | None:
        """`make()`, or None where it fails or the values that it reads are wrong.

        Args:
          make: may raise ValueError, OSError or ImportError, which become faults.
          prefixes: of the keys that `make` reads.
        """
        if any(fault.startswith(prefixes) for fault in self._wrong):
            return None
        try:
            return make()
        except (ValueError, OSError, ImportError) as error:
            self.extend(configuration.faults_in(error))
            return None


def batch_faults(config: ConfigDict, mesh: jax.sharding.Mesh) -> list[str]:
    """Batches that the devices and micro-batches don't divide."""
    devices = meshes.batch_devices(mesh)
    faults = []
    sizes = [
        (f"data.{split}.batch_size", config.data[split].batch_size)
        for split in ("train", "eval")
    ]
    sizes += [
        ("schedule.stages: batch", own) for *_, own in config.schedule.stages if own
    ]
    for key, size in sizes:
        micro = 1 if key.startswith("data.eval") else config.train.accumulation_steps
        if size < 1 or micro < 1 or size % (devices * micro) == 0:
            continue
        unit = devices * micro
        below, above = size // unit * unit, -(-size // unit) * unit
        nearest = f"{below} or {above}" if below else f"{above}"
        times = f" times train.accumulation_steps={micro}" if micro > 1 else ""
        faults.append(
            f"{key}={size} must be a multiple of the {devices} "
            f"devices on mesh axes data, fsdp{times}; take {nearest}."
        )
    return faults


def best_faults(config: ConfigDict) -> list[str]:
    """What best_metric and evals.sets ask for and no evaluation gives."""
    if not config.data.eval.split:
        asked = {
            "checkpoint.best_metric": config.checkpoint.best_metric,
            "evals.sets": " ".join(name for name, *_ in config.evals.sets),
        }
        return [
            f"{key}={value} must be empty, or data.eval.split set: without it nothing "
            "is evaluated."
            for key, value in asked.items()
            if value
        ]
    names = [
        f"eval/{name}" for name in ("", *(f"{row[0]}/" for row in config.evals.sets))
    ]
    by_class = ("mean_class_accuracy",) if config.evals.per_class else ()
    known = (*FIGURES, *by_class)
    figures = [f"{name}{figure}" for name in names for figure in known]
    figures += ["eval/real_accuracy"] if config.evals.real else []
    metric, mode = config.checkpoint.best_metric, config.checkpoint.best_mode
    if not metric:
        return []
    if metric not in figures:
        return [f"checkpoint.best_metric={metric} must be one of {', '.join(figures)}."]
    if mode in (None, best_mode(metric)):
        return []
    return [
        f"checkpoint.best_mode={mode} would keep the worst weights by {metric}; leave "
        f"it unset, or take {best_mode(metric)}."
    ]


def channel_faults(config: ConfigDict) -> list[str]:
    """Means and deviations that are not of the model's channels."""
    channels = config.model.channels
    faults = []
    for key in ("mean", "std"):
        values = tuple(config.data[key])
        if len(values) not in (1, channels):
            faults.append(
                f"data.{key}={values} must be one number or {channels}, one a channel."
            )
    return faults
