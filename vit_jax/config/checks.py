"""What the values of a config can get wrong, by themselves."""

from collections.abc import Iterable

from ml_collections import ConfigDict

from vit_jax.config.key import holds, requirement, shown
from vit_jax.config.table import BY_NAME
from vit_jax.config.values import flatten


def check(config: ConfigDict) -> list[str]:
    """All that the values alone can get wrong, one sentence each; empty when sound."""
    faults = []
    for name, value in flatten(config).items():
        key = BY_NAME[name]
        if value is not None and not holds(key, value):
            faults.append(f"{name}={shown(value)} must be {requirement(key)}.")
    faults.extend(_cross_check(config))
    return faults


def refuse(faults: Iterable[str]) -> None:
    """Does nothing where there are no faults.

    Raises:
      ValueError: one message with all `faults`, each once; numbered where several.
    """
    lines = list(dict.fromkeys(faults))
    if len(lines) > 1:
        listed = "".join(f"\n  {n}. {line}" for n, line in enumerate(lines, start=1))
        raise ValueError(f"{len(lines)} faults:{listed}")
    if lines:
        raise ValueError(lines[0])


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
            "data.source is empty; name a folder of class folders, a manifest, "
            "tfds:NAME or digits, as in --config.data.source=photos."
        )
    return faults
