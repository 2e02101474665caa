"""From a config and names of machines to a plan."""

import copy
import dataclasses
from collections.abc import Sequence

from ml_collections import ConfigDict

from vit_jax import config as configuration
from vit_jax.models.described import model_fields
from vit_jax.models.variants import in_words
from vit_jax.plan import estimate
from vit_jax.plan.advice import changes
from vit_jax.plan.compile import DoesNotFit, compile_step
from vit_jax.plan.parts import count_examples, planned_parts
from vit_jax.plan.roofline import roofline
from vit_jax.plan.table import Plan, Row
from vit_jax.plan.targets import USUAL, Target, parse_target
from vit_jax.train.assemble import Parts


def make_plan(
    config: ConfigDict,
    targets: Sequence[str] = (),
    *,
    faults: Sequence[str] = (),
    num_examples: int | None = None,
    utilisation: float = 0.4,
    compiles: bool = False,
) -> Plan:
    """What a config will cost.

    Args:
      config: left as it is.
      targets: machines by name; none: one of each known device, those that the batch
        or mesh doesn't suit with a reason.
      faults: what is already known to be wrong, to be reported with the rest.
      num_examples: training images of an epoch; None: as many as the data has.
      utilisation: share of a device's peak that training reaches.
      compiles: compiles the step for the only target, a TPU slice.

    Raises:
      ValueError: faults of the config or of a target, all together.
    """
    config = copy.deepcopy(config)
    machines, wrong = _machines(targets, utilisation, num_examples, compiles)
    faults = [*faults, *wrong]
    if num_examples is None:
        try:
            num_examples = count_examples(config)
        except (ValueError, OSError) as error:
            faults += [
                *configuration.faults_in(error),
                "--examples=N and --config.model.num_classes=N stand in for data that "
                "is not here.",
            ]
            num_examples = 1
    configuration.refuse(faults)
    parts = planned_parts(config, num_examples, _fewest(config), faults)
    rows = tuple(_row(parts, machine, utilisation) for machine in machines)
    if targets:
        rows = tuple(_advised(parts, row) for row in rows)
        configuration.refuse(
            f"--target={row.name}: {row.fault}" for row in rows if row.fault
        )
    plan = Plan(
        title=_title(parts),
        costs=estimate.costs(parts),
        utilisation=utilisation,
        rows=rows,
    )
    return _with_compiled(plan, parts, machines[0]) if compiles else plan


def _machines(
    targets: Sequence[str],
    utilisation: float,
    num_examples: int | None,
    compiles: bool,
) -> tuple[list[Target], list[str]]:
    """The machines, and what is wrong with the arguments."""
    machines, faults = [], []
    for name in targets or USUAL:
        try:
            machines.append(parse_target(name))
        except ValueError as error:
            faults.append(str(error))
    if not 0 < utilisation <= 1:
        faults.append(f"--utilisation={utilisation} must be above 0 and at most 1.")
    if num_examples is not None and num_examples < 1:
        faults.append(f"--examples={num_examples} must be 1 or more.")
    if compiles and len(targets) != 1:
        faults.append("--compile needs one --target, as --target=tpu:v5e:4x4.")
    return machines, faults


def _fewest(config: ConfigDict) -> int:
    """The smallest number of devices that the mesh's sizes allow."""
    sizes = (size for size in config.mesh.values() if size > 0)
    count = 1
    for size in sizes:
        count *= size
    return count


def _row(parts: Parts, target: Target, utilisation: float) -> Row:
    try:
        found = estimate.fit(parts, target, utilisation)
    except ValueError as error:
        return Row(target.name, None, fault=str(error))
    return Row(target.name, found)


def _advised(parts: Parts, row: Row) -> Row:
    """The row with what to change, where the run doesn't fit."""
    if row.fit is None or row.fit.fits:
        return row
    return dataclasses.replace(row, changes=tuple(changes(parts, row.fit)))


def _title(parts: Parts) -> str:
    model = parts.config.model
    return in_words(model.variant, model_fields(model.to_dict()))


def _with_compiled(plan: Plan, parts: Parts, target: Target) -> Plan:
    try:
        compiled = compile_step(parts.config, parts.inputs.num_examples, target)
    except DoesNotFit as error:
        (row,) = plan.rows
        advice = row.changes or tuple(changes(parts, row.fit))
        rows = (dataclasses.replace(row, changes=advice),)
        return dataclasses.replace(plan, rows=rows, compiled_fault=str(error))
    return dataclasses.replace(
        plan,
        compiled=compiled,
        roofline=roofline(compiled, target.device, parts.config.train.compute_dtype),
    )
