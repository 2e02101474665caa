"""What every test runs under: eight simulated CPU devices and strict shapes."""

import os
import zipfile
from pathlib import Path

import pytest

# Before JAX starts a back end, and for the processes that tests start.
os.environ["JAX_PLATFORMS"] = "cpu"

import jax

REPOSITORY = Path(__file__).parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Sets up JAX before any test module is imported."""
    jax.config.update("jax_num_cpu_devices", 8)
    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="session")
def cifar10_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 5,000 training and 1,000 test images of CIFAR-10 in class folders.

    Unpacked from the archive that VIT_JAX_TEST_DATA names; without that variable, from
    ../shared/data/cifar10_5000_1000.zip, beside the repository. A test that asks for it
    is skipped where there is no such file.
    """
    beside = REPOSITORY.parent / "shared" / "data" / "cifar10_5000_1000.zip"
    archive = Path(os.environ.get("VIT_JAX_TEST_DATA", beside))
    if not archive.is_file():
        pytest.skip(f"needs {archive}; VIT_JAX_TEST_DATA can name another place")
    folder = tmp_path_factory.mktemp("cifar10")
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    return folder
