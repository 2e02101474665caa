"""From scratch against fine-tuned: the same steps on the same images, three seeds each.

    python benchmarks/transfer.py --data=CIFAR_FOLDER --workdir=runs/transfer
    python benchmarks/transfer.py --data=CIFAR_FOLDER --workdir=runs/transfer_fashion \
        --pretrain_data=FASHION_MNIST_FOLDER

For each seed a small ViT is pretrained on digits (bundled with scikit-learn) or on a
folder of IDX files such as Fashion-MNIST, at 16 pixels; then one is trained from
scratch on CIFAR at 32 pixels, and one from those weights, with the same number of
steps. Writes transfer.json and prints a Markdown table. The same command again goes on
where it stopped.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from vit_jax.cli.recipes import load_config
from vit_jax.train.loop import train_and_evaluate


def main() -> None:
    """Trains all runs and prints the table."""
    arguments = _arguments()
    root = Path(arguments.workdir)
    rows = []
    for seed in range(arguments.seeds):
        pretrained = root / f"pretrained_{seed}"
        _train(_pretraining(arguments, seed), pretrained)
        for name, weights in (("from scratch", ""), ("fine-tuned", str(pretrained))):
            workdir = root / f"{name.replace(' ', '_')}_{seed}"
            figures = _train(_training(arguments, seed, weights), workdir)
            rows.append({"run": name, "seed": seed} | figures)
    (root / "transfer.json").write_text(json.dumps(rows, indent=2) + "\n")
    print(_table(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="CIFAR as a folder")
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--pretrain_data", default="digits")
    parser.add_argument("--pretrain_steps", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=64)
    return parser.parse_args()


def _pretraining(arguments: argparse.Namespace, seed: int) -> ConfigDict:
    return _config(
        arguments,
        seed,
        arguments.pretrain_steps,
        {"model.image_size": "16", "data.source": arguments.pretrain_data}
        | {"augment.shift": "2", "augment.flip": "0"},
    )


def _training(arguments: argparse.Namespace, seed: int, weights: str) -> ConfigDict:
    return _config(
        arguments,
        seed,
        arguments.steps,
        {"model.image_size": "32", "data.source": arguments.data}
        | {"init.weights": weights, "init.head": "reset"},
    )


def _config(
    arguments: argparse.Namespace, seed: int, steps: int, changes: dict[str, str]
) -> ConfigDict:
    """The recipe cifar10_tiny with changes; runs differ in nothing else."""
    common = {
        "model.channels": "3",
        "seed": str(seed),
        "data.train.batch_size": str(arguments.batch_size),
        "schedule.total_epochs": "unset",
        "schedule.total_steps": str(steps),
        "checkpoint.every_steps": "0",
        "checkpoint.keep": "1",
        "evals.every_steps": "0",
        "log.tensorboard": "false",
    }
    config, faults = load_config("cifar10_tiny", common | changes)
    if faults:
        raise ValueError("\n".join(faults))
    return config


def _train(config: ConfigDict, workdir: Path) -> dict[str, Any]:
    result = train_and_evaluate(config, workdir)
    if not result.finished:
        raise SystemExit(128 + result.stopped_by)
    return {
        name: result.evaluation[f"eval/{name}"] for name in ("accuracy", "loss")
    } | {"steps": result.step}


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| run | steps | seeds | accuracy | loss |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(row["run"] for row in rows):
        own = [row for row in rows if row["run"] == name]
        accuracy, loss = (
            np.array([row[figure] for row in own]) for figure in ("accuracy", "loss")
        )
        spread = accuracy.std(ddof=1) if len(own) > 1 else 0.0
        lines.append(
            f"| {name} | {own[0]['steps']} | {len(own)} | "
            f"{accuracy.mean():.2%} ± {spread:.2%} | {loss.mean():.4f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
