"""What a run wrote into its journal."""

import json


def rows(workdir):
    """All rows of metrics.jsonl."""
    lines = (workdir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def losses(workdir):
    """[(step, loss)] of training."""
    return [(row["step"], row["loss"]) for row in rows(workdir) if "loss" in row]
