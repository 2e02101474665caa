"""A disk that fills up costs the run, not its checkpoints."""

import re
import subprocess

import pytest

from tests.end_to_end import runs
from vit_jax.checkpoint import complete_steps

# Enough for the first checkpoints, of which all are kept here, not for the last.
SETTINGS = {
    "checkpoint__every_steps": 5,
    "checkpoint__keep": 100,
    "data__workers": 2,
}


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 2 MB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.slow
def test_a_full_disk_is_said_in_plain_words_and_the_run_goes_on_with_more_room(
    small_disk, tmp_path_factory
):
    workdir = small_disk / "run"
    stopped = subprocess.run(
        runs.command(workdir, **SETTINGS),
        env=runs.environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert stopped.returncode == 1, stopped.stderr
    assert "the disk is full" in stopped.stderr
    # Threads of Orbax may complain after the fact; nothing of ours is in a traceback.
    assert not re.search(r'File ".*vit_jax/(train|checkpoint|cli)/', stopped.stderr)
    whole = complete_steps(workdir / "checkpoints")
    assert whole and whole[-1] < 100
    subprocess.run(["mount", "-o", "remount,size=60m", small_disk], check=True)
    said = runs.train(workdir, **SETTINGS)
    assert f"going on from the checkpoint of step {whole[-1]}" in said
    straight = tmp_path_factory.mktemp("straight")
    runs.train(straight)
    assert runs.losses(workdir) == runs.losses(straight)
