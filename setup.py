"""Metadata and dependencies; lower bounds are the releases that the tests ran with."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
# Read, not imported: the package's own imports are not installed yet.
SOURCE = (ROOT / "vit_jax" / "__init__.py").read_text(encoding="utf-8")
VERSION = re.search(r'^__version__ = "(.+)"$', SOURCE, re.MULTILINE)[1]

CORE = [
    "absl-py>=2.5.1",
    "array-record>=0.8.6",
    "chex>=0.1.92",
    "etils[epath]>=1.15.0",
    "flax>=0.12.8",
    "grain>=0.2.18",
    # TensorFlow Datasets imports it without saying so.
    "importlib-resources>=7.1.0",
    "jax>=0.10.2",
    "ml-collections>=1.1.0",
    "numpy>=2.4.6",
    "opencv-python-headless>=5.0.0.93",
    "optax>=0.2.8",
    "orbax-checkpoint>=0.12.8",
    "pillow>=13.0.0",
    "safetensors>=0.8.0",
    "scikit-learn>=1.9.1",
    "scipy>=1.17.1",
    "simplejpeg>=1.9.0",
    "tensorboardX>=2.6.5",
    "tensorflow-datasets>=4.9.10",
    "tensorstore>=0.1.86",
    "tqdm>=4.70.1",
]
GCS = ["etils[epath-gcs]>=1.15.0"]
TORCH = ["torch>=2.14.1"]
PLOTS = ["matplotlib>=3.11.2"]
DOCS = ["myst-parser>=5.0.0", "sphinx>=9.0.0"]
TEST = [
    "build>=1.6.1",
    "import-linter>=2.17",
    "pytest>=9.2.0",
    "pytest-xdist>=3.8.0",
    "ruff==0.17.6",
    "setuptools>=80.0.0",
    "timm==1.0.31",
    "torch==2.14.1",
    "torchvision==0.29.1",
    "transformers==5.24.0",
]

setup(
    name="vit_jax",
    version=VERSION,
    description="Vision Transformers in JAX and Flax: train, fine-tune, convert",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords=["vision transformer", "jax", "flax", "image classification", "tpu"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    python_requires=">=3.11",
    # The recipes stand at the top of the repository and install into the package.
    packages=[*find_packages(include=["vit_jax", "vit_jax.*"]), "vit_jax.configs"],
    package_dir={"vit_jax.configs": "configs"},
    install_requires=CORE,
    extras_require={
        # gs:// paths for workdirs, data and weights.
        "gcs": GCS,
        "tpu": ["jax[tpu]>=0.10.2", *GCS],
        "cuda12": ["jax[cuda12]>=0.10.2"],
        "cuda13": ["jax[cuda13]>=0.10.2"],
        "torch": TORCH,
        "plots": PLOTS,
        # The TPU compiler where no TPU is: jax[tpu] pins the libtpu of the jax release.
        "compile": ["jax[tpu]>=0.10.2"],
        "docs": DOCS,
        "test": [*TEST, *PLOTS],
    },
    entry_points={"console_scripts": ["vit_jax = vit_jax.__main__:main"]},
)
