"""What a run says about itself, in sentences."""

import signal
from collections.abc import Iterable

import jax

from vit_jax.models.described import model_fields
from vit_jax.models.variants import in_words
from vit_jax.train import advice, durations
from vit_jax.train import mesh as meshes
from vit_jax.train.assemble import Parts
from vit_jax.train.stages import Stage
from vit_jax.workdir import Workdir

_SKIPPED_SHOWN = 20


def introduction(parts: Parts) -> str:
    """What is about to happen, in numbers that can be checked against a recipe."""
    config = parts.config
    devices = jax.devices()
    model = in_words(config.model.variant, model_fields(config.model.to_dict()))
    return (
        f"{config.data.source}: {parts.inputs.num_examples:,} training images, "
        f"{len(parts.inputs.class_names)} classes; {model}: "
        f"{parts.num_params:,} parameters\n"
        f"{_batches(parts)}; {parts.total_steps:,} steps on {jax.process_count()} "
        f"process(es) with {len(devices)} device(s) of kind {devices[0].device_kind}"
    )


def _batches(parts: Parts) -> str:
    """Batch and peak rate of the run, or of each of its stages."""
    if len(parts.stages) == 1:
        return _batch(parts, parts.stages[0])
    return "\n".join(
        f"to step {stage.last_step:,} {_shown(stage)}: {_batch(parts, stage)}"
        for stage in parts.stages
    )


def _batch(parts: Parts, stage: Stage) -> str:
    size = stage.batch_size
    peak = durations.peak_learning_rate(parts.config, size)
    return (
        f"batch {size} ({size // meshes.batch_part(parts.mesh)[1]} a process, "
        f"{size // meshes.batch_devices(parts.mesh)} a device"
        f"{advice.micro_batches(parts, size)}), peak learning rate {peak:g}"
    )


def stage_begins(parts: Parts, stage: Stage, step: int) -> str:
    """What the steps from here on work on, and the rate that their batch makes."""
    peak = durations.peak_learning_rate(parts.config, stage.batch_size)
    return (
        f"step {step}: images of {_shown(stage)} from here on, in batches of "
        f"{stage.batch_size}, peak learning rate {peak:g}"
    )


def _shown(stage: Stage) -> str:
    return f"{stage.image_size[0]} x {stage.image_size[1]}"


def already_finished(workdir: Workdir, step: int, total_steps: int) -> str:
    """Why nothing happens, and what would make something happen."""
    return (
        f"this run is finished: step {step} of {total_steps} is saved in "
        f"{workdir.path}; raise schedule.total_steps or total_epochs to train on, or "
        "name another workdir"
    )


def past_the_end(workdir: Workdir, step: int, total_steps: int) -> str:
    """Why a config that ends before a run's checkpoint is refused."""
    return (
        f"workdir {workdir.path} holds a checkpoint of step {step}, and this config "
        f"ends at step {total_steps}; raise schedule.total_steps or total_epochs (or "
        "lower data.train.batch_size, which decides the steps of an epoch), or name "
        "another workdir."
    )


def starts_anew() -> str:
    """What became of the journal of a run that has no checkpoint."""
    return (
        "no checkpoint is there to go on from: training starts anew, and the former "
        "journal is kept as metrics.jsonl.before"
    )


def stopped(number: int, step: int) -> str:
    """How a run ended that a signal stopped."""
    word = "terminated" if number == signal.SIGTERM else "interrupted"
    if not step:
        return f"{word} before the first step; nothing was saved"
    return f"{word}: step {step} is saved; the same command goes on from it"


def skipped_images(names: Iterable[str]) -> str:
    """How many images could not be read, and the first names."""
    names = sorted(names)
    more = ", …" if len(names) > _SKIPPED_SHOWN else ""
    return (
        f"{len(names)} unreadable images were skipped: "
        f"{', '.join(names[:_SKIPPED_SHOWN])}{more}"
    )


def diverged(
    workdir: Workdir, step: int, reason: str, saved_step: int, max_nonfinite_steps: int
) -> str:
    """What happened at `step`, what is left, and what to do."""
    saved = f"checkpoints/{saved_step} is the newest checkpoint"
    kept = saved if saved_step else "no checkpoint was saved before"
    return (
        f"training diverged at step {step}: {reason}; {kept} in {workdir.path}. Lower "
        "schedule.base_learning_rate, lengthen the warmup or lower "
        f"optimizer.clip_norm; train.max_nonfinite_steps={max_nonfinite_steps} is how "
        "many such steps may be passed over. The same command then goes on from that "
        "checkpoint; should it diverge again at once, move the checkpoint elsewhere to "
        "go on from the one before, or use another workdir."
    )
