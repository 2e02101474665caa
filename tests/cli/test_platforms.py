"""Tests vit_jax/cli/platforms.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vit_jax.cli import platforms


@pytest.fixture
def installed(monkeypatch):
    """libtpu seems to be installed, and JAX_PLATFORMS is unset."""
    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.setattr(platforms, "_installed", lambda module: module == "libtpu")
    return monkeypatch


def test_an_installed_compiler_is_not_asked_for_a_tpu_that_is_not_here(installed):
    installed.setattr(platforms, "tpu_may_be_here", lambda environment: False)
    platforms.leave_out_absent_tpus()
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    del os.environ["JAX_PLATFORMS"]


def test_where_a_tpu_may_be_nothing_changes(installed):
    installed.setattr(platforms, "tpu_may_be_here", lambda environment: True)
    platforms.leave_out_absent_tpus()
    assert "JAX_PLATFORMS" not in os.environ


def test_what_the_caller_has_set_stays(installed):
    installed.setenv("JAX_PLATFORMS", "tpu")
    platforms.leave_out_absent_tpus()
    assert os.environ["JAX_PLATFORMS"] == "tpu"


def _pci(root: Path, vendor: str, device: str) -> str:
    folder = root / "sys/bus/pci/devices/0000:00:04.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{device}\n")
    return f"{root}/"


@pytest.mark.parametrize(
    ("vendor", "device", "here"),
    [
        ("0x1ae0", "0x0063", True),
        ("0x1ae0", "0x9999", True),
        ("0x1ae0", "0x0042", False),
        ("0x8086", "0x0063", False),
    ],
)
def test_a_tpu_is_told_by_its_card(tmp_path, vendor, device, here):
    root = _pci(tmp_path, vendor, device)
    assert platforms.tpu_may_be_here({}, root) is here


def test_a_tpu_is_told_by_device_files_or_environment(tmp_path):
    root = f"{tmp_path}/"
    assert not platforms.tpu_may_be_here({}, root)
    assert platforms.tpu_may_be_here({"TPU_NAME": "x"}, root)
    (tmp_path / "dev/vfio").mkdir(parents=True)
    (tmp_path / "dev/vfio/0").touch()
    assert platforms.tpu_may_be_here({}, root)


@pytest.mark.slow
def test_ordinary_commands_say_nothing_of_a_tpu(tmp_path):
    """Whether libtpu is installed or not: evaluating starts a device."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
    workdir = f"--workdir={tmp_path / 'run'}"
    train = ["train", "--config=digits", workdir, "--config.schedule.total_epochs=1"]
    for command in (train, ["evaluate", workdir]):
        ended = subprocess.run(
            [sys.executable, "-m", "vit_jax", *command],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
        assert "tpu" not in (ended.stdout + ended.stderr).lower()
