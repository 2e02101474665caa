"""A plan in words and columns for people, and as a mapping for programs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from vit_jax.devices import GIB
from vit_jax.plan.advice import Change
from vit_jax.plan.compile import Compiled
from vit_jax.plan.estimate import USABLE, Costs, Fit, Size
from vit_jax.plan.roofline import Roofline


@dataclasses.dataclass(frozen=True)
class Row:
    """A target: how the run sits on it, or why it can't; and what to change."""

    name: str
    fit: Fit | None
    fault: str = ""
    changes: tuple[Change, ...] = ()


@dataclasses.dataclass(frozen=True)
class Plan:
    """All that is known of a config before it runs.

    Attributes:
      title: the model in words.
      utilisation: see `estimate.fit`.
      compiled, roofline: of the only target, where it was compiled.
      compiled_fault: why the compiler found no room for it.
    """

    title: str
    costs: Costs
    utilisation: float
    rows: tuple[Row, ...]
    compiled: Compiled | None = None
    roofline: Roofline | None = None
    compiled_fault: str = ""


def as_text(plan: Plan) -> str:
    """The plan for people."""
    sections = [_costs(plan), _machines(plan), *_advice(plan), _compiled(plan)]
    return "\n\n".join(filter(None, sections))


def as_dict(plan: Plan) -> dict[str, Any]:
    """The plan for programs: JSON-able, in bytes, FLOPs and seconds.

    Where there is one target, its figures are at the top too: the compiler's where it
    was compiled, else the formula's.
    """
    found: dict[str, Any] = {
        "model": plan.title,
        **dataclasses.asdict(plan.costs),
        "steps_per_epoch": plan.costs.steps_per_epoch,
        "utilisation": plan.utilisation,
        "targets": [_row_dict(row, plan.costs) for row in plan.rows],
    }
    if len(plan.rows) == 1 and plan.rows[0].fit:
        only = plan.rows[0].fit
        found["by"] = "formula"
        found["bytes_per_device"] = only.memory.total
        found["flops_per_device"] = plan.costs.step_flops / only.target.count
    if plan.compiled and plan.roofline:
        found |= dataclasses.asdict(plan.compiled) | {"by": "compiler"}
        found["roofline_seconds"] = dataclasses.asdict(plan.roofline)
    if plan.compiled_fault:
        found["out_of_memory"] = plan.compiled_fault
    return found


def _row_dict(row: Row, costs: Costs) -> dict[str, Any]:
    if row.fit is None:
        return {"target": row.name, "fault": row.fault}
    fit = row.fit
    return {
        "target": row.name,
        "devices": fit.target.count,
        "memory": dataclasses.asdict(fit.memory) | {"total": fit.memory.total},
        "memory_of_device": fit.target.device.memory,
        "fits": fit.fits,
        "largest_batch": fit.largest_batch,
        "step_seconds": fit.step_seconds,
        "epoch_seconds": fit.step_seconds * costs.steps_per_epoch,
        "changes": [
            {**dataclasses.asdict(change), "text": change.text}
            for change in row.changes
        ],
    }


def _costs(plan: Plan) -> str:
    costs = plan.costs
    rows = [("image", "tokens", "forward GFLOP", "attention")]
    rows += [_growth(size) for size in costs.growth]
    return "\n".join(
        [
            f"{plan.title}: {costs.parameters:,} parameters",
            f"{costs.num_examples:,} images, {costs.batch_size:,} a step: "
            f"{costs.steps_per_epoch:,.1f} steps an epoch, {costs.total_steps:,} steps",
            f"{costs.size.forward_flops / 1e9:,.2f} GFLOP forward an image, "
            f"{costs.step_flops / 1e12:,.2f} TFLOP a step, and by size of the image:",
            *_columns(rows),
            "(attention: the share of products of queries with keys and weights with "
            "values,\n which grow with the square of the tokens)",
        ]
    )


def _growth(size: Size) -> tuple[str, ...]:
    return (
        f"{size.image_size[0]} x {size.image_size[1]}",
        f"{size.tokens:,}",
        f"{size.forward_flops / 1e9:,.2f}",
        f"{size.attention_share:.1%}",
    )


def _machines(plan: Plan) -> str:
    head = ("target", "weights", "optimizer", "gradients", "activations", "total")
    head = (*head, "of GiB", "fits", "largest batch", "s/step", "h/epoch")
    rows = [head]
    for row in plan.rows:
        if row.fit:
            rows.append(_machine(row.fit, plan.costs))
    faults = [f"{row.name}: {row.fault}" for row in plan.rows if row.fault]
    table = _columns(rows) if len(rows) > 1 else []
    return "\n".join(
        [
            f"GiB on each device by formula (fits: at most {USABLE:.0%}), time at "
            f"{plan.utilisation:.0%} of the peak:",
            *table,
            *faults,
        ]
    )


def _machine(fit: Fit, costs: Costs) -> tuple[str, ...]:
    memory = fit.memory
    still = memory.params + memory.average
    sizes = (still, memory.optimizer, memory.gradients)
    sizes = (*sizes, memory.activations + memory.images + memory.stacked, memory.total)
    return (
        fit.target.name,
        *(f"{size / GIB:.2f}" for size in sizes),
        f"{fit.target.device.memory / GIB:.0f}",
        "yes" if fit.fits else "no",
        f"{fit.largest_batch:,}",
        f"{fit.step_seconds:.3g}",
        f"{fit.step_seconds * costs.steps_per_epoch / 3600:.3g}",
    )


def _advice(plan: Plan) -> list[str]:
    misfits = [row.name for row in plan.rows if row.fit and not row.fit.fits]
    if misfits and not any(row.changes for row in plan.rows):
        return [f"--target={misfits[0]} says what to change to make it fit there."]
    return [
        "\n".join(
            [
                f"{row.name} has too little memory. Each of these alone gives:",
                *_columns([_change(change) for change in row.changes]),
            ]
        )
        for row in plan.rows
        if row.changes
    ]


def _change(change: Change) -> tuple[str, ...]:
    size = f"{change.bytes_per_device / GIB:.2f} GiB"
    return change.text, size, "fits" if change.fits else "still too much"


def _compiled(plan: Plan) -> str:
    if plan.compiled_fault:
        return f"compiled for {plan.rows[0].name}: {plan.compiled_fault}"
    if not plan.compiled or not plan.roofline:
        return ""
    compiled, line = plan.compiled, plan.roofline
    rows = [
        ("memory", f"{compiled.bytes_per_device / GIB:.2f} GiB"),
        ("  arguments", f"{compiled.arguments / GIB:.2f} GiB"),
        ("  scratch", f"{compiled.temporaries / GIB:.2f} GiB"),
        ("FLOPs", f"{compiled.flops_per_device / 1e12:.3f} T"),
        ("accessed", f"{compiled.bytes_accessed_per_device / 1e9:.1f} GB"),
    ]
    rows += [
        (each.kind, f"{each.bytes / 1e6:.1f} MB in {each.count}")
        for each in compiled.collectives
    ]
    rows += [
        (f"time by {name}", f"{value:.4f} s") for name, value in vars(line).items()
    ]
    return "\n".join(
        [
            f"compiled for {plan.rows[0].name} in {compiled.compile_seconds:.0f} s; on "
            "each device:",
            *_columns(rows),
            f"A step takes at least {line.seconds:.4f} s, by {line.limit}.",
        ]
    )


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns, the first to the left and the others to the right."""
    if not rows:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
