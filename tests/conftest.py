"""What every test runs under: eight simulated CPU devices and strict shapes."""

import os
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent

# For JAX, which reads them when it is imported, and for the processes that tests start.
# Compilation takes most of the time: with the cache a second run takes a quarter.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_COMPILATION_CACHE_DIR": str(REPOSITORY / ".pytest_cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def pytest_configure(config: pytest.Config) -> None:
    """Sets up JAX before any test module is imported."""
    os.environ |= ENVIRONMENT
    if config.option.markexpr == "not slow":
        # Fast tests compile more than they compute; slow ones run what users run.
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    import jax

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


@pytest.fixture(scope="session")
def _served_store():
    from tests.object_store import ObjectStore, serve

    store = ObjectStore()
    address = serve(store)
    # TensorStore reads them once, when it first meets gs://.
    os.environ["TENSORSTORE_GCS_HTTP_URL"] = f"http://{address}"
    os.environ["GCE_METADATA_ROOT"] = address
    return store


@pytest.fixture
def object_store(_served_store, monkeypatch: pytest.MonkeyPatch):
    """gs://bucket/run, an empty folder in an object store in this process's memory."""
    from etils import epath
    from etils.epath import backend
    from orbax.checkpoint._src.path import gcs_utils

    _served_store.empty()
    monkeypatch.setattr(
        type(backend.fsspec_backend),
        "_get_filesystem",
        lambda self, name: _served_store,
    )
    # Google's client would be asked only whether the bucket has real folders.
    monkeypatch.setattr(gcs_utils, "get_bucket", lambda name: object())
    folder = epath.Path("gs://bucket/run")
    folder.mkdir(parents=True)
    return folder
