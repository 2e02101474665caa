"""What the values of a config can get wrong, by themselves."""

import collections
from collections.abc import Iterable

from ml_collections import ConfigDict

from vit_jax.config.key import holds, requirement, shown
from vit_jax.config.listed import is_set
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
        inner = (line.replace("\n", "\n     ") for line in lines)
        listed = "".join(f"\n  {n}. {line}" for n, line in enumerate(inner, start=1))
        raise ValueError(f"{len(lines)} faults:{listed}")
    if lines:
        raise ValueError(lines[0])


def faults_in(error: Exception) -> list[str]:
    """The faults that an error's text lists, a line each.

    An indented line belongs to the fault above it.
    """
    faults: list[str] = []
    for line in str(error).splitlines():
        if faults and line[:1].isspace():
            faults[-1] += f"\n{line}"
        else:
            faults.append(line)
    return faults


def _cross_check(config: ConfigDict) -> list[str]:
    """Faults of several keys together."""
    faults = _schedule_faults(config.schedule)
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
    # Entries that are no sets are faults of the value.
    sets = [entry for entry in config.evals.sets if is_set(entry)]
    counts = collections.Counter(name for name, *_ in sets)
    faults.extend(
        f"evals.sets names {name} {count} times; give each set a name of its own, as "
        f"in {name}_2=SOURCE:SPLIT."
        for name, count in counts.items()
        if count > 1
    )
    return faults


def _schedule_faults(schedule: ConfigDict) -> list[str]:
    """A duration may be given in one unit only."""
    totals = {
        unit: schedule[f"total_{unit}"] for unit in ("steps", "epochs", "examples")
    }
    given = [unit for unit, value in totals.items() if value is not None]
    faults = []
    if len(given) != 1:
        listed = _listed({f"total_{unit}": value for unit, value in totals.items()})
        faults.append(
            f"{listed}: exactly one of them must be set; the value unset takes one "
            "back, as in --config.schedule.total_epochs=unset."
        )
    faults.extend(
        f"schedule.total_{unit}={totals[unit]} must be above 0."
        for unit in given
        # Of whole steps the key's own range says it.
        if totals[unit] == 0 and unit != "steps"
    )
    for phase in ("warmup", "cooldown"):
        keys = [f"{phase}_{unit}" for unit in ("steps", "epochs", "examples", "share")]
        above = {key: schedule[key] for key in keys if schedule[key]}
        if len(above) > 1:
            faults.append(
                f"{_listed(above)}: at most one of them may be above 0; take the other "
                f"back with --config.schedule.{list(above)[-1]}=0."
            )
    return faults


def _listed(values: dict[str, object]) -> str:
    return " and ".join(f"schedule.{key}={value}" for key, value in values.items())
