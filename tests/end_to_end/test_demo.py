"""The demo as a new user runs it."""

import json
import re
import subprocess
import sys

import pytest

from tests.end_to_end import runs


@pytest.mark.slow
def test_the_demo_reaches_97_percent_and_predicts_from_its_checkpoint(tmp_path):
    command = [sys.executable, "-m", "vit_jax", "demo", f"--workdir={tmp_path}/run"]
    done = subprocess.run(
        command, env=runs.environment(), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["eval/examples"] == 360
    assert last["eval/accuracy"] >= 0.97
    shown = re.search(r"is right for ([\d.]+)% of 360 test images", done.stdout)
    assert float(shown[1]) == round(100 * last["eval/accuracy"], 2)
    predicted = re.findall(r"test_\d_is_(\d)\.png +(\d) [\d.]+%", done.stdout)
    assert len(predicted) == 5
    assert sum(truth == guess for truth, guess in predicted) >= 4
    report = tmp_path / "run" / "report" / "report.html"
    assert report.read_text().count("data:image/png") == 10
    again = subprocess.run(
        command, env=runs.environment(), capture_output=True, text=True, timeout=300
    )
    assert again.returncode == 0
    assert "this run is finished" in again.stderr
