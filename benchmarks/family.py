"""Position kinds, patch sizes and model families: the same steps on the same images.

    python benchmarks/family.py --data=CIFAR_FOLDER --workdir=runs/family

Trains small models on CIFAR at 32 pixels, without dropout, by the recipe cifar10_tiny
otherwise: every run takes the same steps on the same images in the same order, with a
shift and a flip, and differs in the listed keys alone. Writes family.json and prints a
Markdown table a study, with mean and range over the seeds; a difference to a study's
first row counts where the ranges don't overlap. The same command again goes on where it
stopped.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vit_jax.cli.recipes import load_config
from vit_jax.models.described import model_fields
from vit_jax.models.flops import count_parameters, forward_flops
from vit_jax.models.variants import resolve
from vit_jax.train.loop import train_and_evaluate

# What each run changes in the recipe.
RUNS = {
    "learned_1d": {},
    "none": {"model.position": "none"},
    "learned_2d": {"model.position": "learned_2d"},
    "relative": {"model.position": "relative"},
    "sincos_2d": {"model.position": "sincos_2d"},
    "rope": {"model.position": "rope"},
    "conv stem": {"model.stem": "conv", "model.depth": "3"},
    "hybrid": {
        "model.stem": "resnet",
        "model.stem_width": "32",
        "model.stem_units": "1",
        "model.patch_size": "1",
        "model.depth": "3",
    },
    "ResNet": {
        "model.variant": "R50x1",
        "model.stem_width": "32",
        "model.stem_units": "2,1",
        "model.dropout": "unset",
        "model.attention_dropout": "unset",
    },
    "patch 8": {"model.patch_size": "8"},
    "patch 2": {"model.patch_size": "2"},
}

# The first row of each is what the others are compared with.
STUDIES = {
    "positions": ("learned_1d", "none", "learned_2d", "relative", "sincos_2d", "rope"),
    "patches": ("learned_1d", "patch 8", "patch 2"),
    "families": ("learned_1d", "conv stem", "hybrid", "ResNet"),
}

Row = dict[str, Any]


def main() -> None:
    """Trains all runs and prints the tables."""
    arguments = _arguments()
    results = Path(arguments.workdir) / "family.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(results.read_text()) if results.exists() else {}
    names = [name for name in RUNS if _wanted(name, arguments.studies)]
    done = []
    for seed in range(arguments.seeds):
        for name in names:
            run = _folder(arguments, name, seed)
            if not rows.get(run, {}).get("finished"):
                config = make_config(arguments, name, seed)
                spent = rows.get(run, {}).get("cpu_seconds", 0)
                row = _train(config, results.parent / run, spent)
                rows[run] = {"run": name, "seed": seed} | row
                results.write_text(json.dumps(rows, indent=2) + "\n")
            if not rows[run]["finished"]:
                raise SystemExit(128 + rows[run]["stopped_by"])
            done.append(rows[run])
    for study in arguments.studies:
        print(f"\n### {study}\n\n{table(STUDIES[study], done)}")


def _folder(arguments: argparse.Namespace, name: str, seed: int) -> str:
    """Runs of another length are other runs."""
    length = f"{arguments.steps}x{arguments.batch_size}"
    return f"{name.replace(' ', '_')}_{length}_{seed}"


def _wanted(name: str, studies: list[str]) -> bool:
    return any(name in STUDIES[study] for study in studies)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="CIFAR as a folder")
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--studies", nargs="+", default=list(STUDIES), choices=STUDIES)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


def make_config(arguments: argparse.Namespace, name: str, seed: int) -> ConfigDict:
    """The recipe cifar10_tiny with what all runs change, and what this one does."""
    common = {
        "seed": str(seed),
        "data.source": arguments.data,
        "data.train.batch_size": str(arguments.batch_size),
        "model.num_classes": "10",
        "model.dropout": "0",
        "model.attention_dropout": "0",
        "schedule.total_epochs": "unset",
        "schedule.total_steps": str(arguments.steps),
        "checkpoint.every_steps": "0",
        "checkpoint.keep": "1",
        "evals.every_steps": "0",
        "log.tensorboard": "false",
    }
    config, faults = load_config("cifar10_tiny", common | RUNS[name])
    if faults:
        raise ValueError("\n".join(faults))
    return config


def _train(config: ConfigDict, workdir: Path, spent: float) -> Row:
    """Figures of one run; `spent` is what its earlier part took.

    Time is the process's CPU seconds, which other programs on the machine change
    little; compiling and the evaluation are in it.
    """
    began = time.process_time()
    result = train_and_evaluate(config, workdir)
    row = {
        "finished": result.finished,
        "stopped_by": result.stopped_by,
        "steps": result.step,
        "cpu_seconds": spent + time.process_time() - began,
    } | size(config)
    if result.finished:
        figures = ("accuracy", "loss")
        row |= {figure: result.evaluation[f"eval/{figure}"] for figure in figures}
    return row


def size(config: ConfigDict) -> Row:
    """Parameters, and FLOPs of one image's way through the model."""
    fields = model_fields(config.model.to_dict())
    fields["num_classes"] = config.model.num_classes
    spec = resolve(config.model.variant, fields)
    return {
        "parameters": count_parameters(spec, (32, 32)),
        "flops": forward_flops(spec, (32, 32)),
    }


def table(names: tuple[str, ...], rows: list[Row]) -> str:
    """A Markdown table, one row a run."""
    lines = [
        "| run | parameters | MFLOPs an image | CPU seconds | accuracy | range "
        "| loss | against the first |",
        "|---|---|---|---|---|---|---|---|",
    ]
    first = _accuracies(names[0], rows)
    for name in names:
        own = [row for row in rows if row["run"] == name]
        accuracy = _accuracies(name, rows)
        seconds, loss = (
            np.mean([row[figure] for row in own]) for figure in ("cpu_seconds", "loss")
        )
        lines.append(
            f"| {name} | {own[0]['parameters']:,} | {own[0]['flops'] / 1e6:.1f} "
            f"| {seconds:.0f} | {accuracy.mean():.1%} "
            f"| {accuracy.min():.1%} to {accuracy.max():.1%} | {loss:.3f} "
            f"| {_difference(accuracy, first)} |"
        )
    return "\n".join(lines)


def _accuracies(name: str, rows: list[Row]) -> np.ndarray:
    return np.array([row["accuracy"] for row in rows if row["run"] == name])


def _difference(accuracy: np.ndarray, first: np.ndarray) -> str:
    """Points between the means where the ranges are apart."""
    if accuracy.min() <= first.max() and first.min() <= accuracy.max():
        return "none"
    return f"{100 * (accuracy.mean() - first.mean()):+.1f}"


if __name__ == "__main__":
    main()
