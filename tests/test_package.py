"""The package as it is installed: contents, dependencies, imports, set-up."""

import ast
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "vit_jax"
# TensorFlow Datasets imports it without declaring it.
NEEDED_BY_OTHERS = {"importlib-resources"}
# Folders and files whose imports an extra brings, and that extra.
EXTRA_OF = {"convert": "torch", "visualize": "plots", "train/study.py": "plots"}


def run_python(code: str) -> str:
    """What `code` prints in a fresh interpreter."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(extra: str | None = None) -> dict[str, str]:
    """Distribution name -> version bound, of the core or of one extra."""
    found = {}
    for line in importlib.metadata.requires("vit_jax"):
        requirement, _, marker = line.partition(";")
        wanted = f'extra == "{extra}"' if extra else ""
        if marker.strip() == wanted:
            name = re.match(r"[\w.-]+", requirement)[0]
            found[canonical(name)] = requirement.removeprefix(name).strip()
    return found


def third_party_imports(file: Path) -> set[str]:
    """Top-level names that `file` imports from outside itself and Python."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.partition(".")[0])
    return names - {"vit_jax"} - set(sys.stdlib_module_names)


def test_every_folder_with_modules_is_a_package():
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    assert folders
    assert not [str(f) for f in folders if not (f / "__init__.py").is_file()]


def test_every_recipe_is_found_by_its_bare_name():
    recipes = sorted((REPOSITORY / "configs").glob("*.py"))
    assert recipes
    for file in recipes:
        spec = importlib.util.find_spec(f"vit_jax.configs.{file.stem}")
        assert Path(spec.origin).samefile(file)


def test_every_import_is_a_declared_dependency():
    distributions = importlib.metadata.packages_distributions()
    core = set(requirements())
    undeclared = []
    for file in PACKAGE.rglob("*.py"):
        inside = file.relative_to(PACKAGE)
        extra = EXTRA_OF.get(inside.parts[0]) or EXTRA_OF.get(inside.as_posix())
        declared = core | set(requirements(extra) if extra else ())
        for name in third_party_imports(file):
            if not declared & {canonical(d) for d in distributions.get(name, ())}:
                undeclared.append(f"{file.relative_to(REPOSITORY)}: {name}")
    assert not undeclared


def test_every_core_dependency_is_used():
    used = set().union(*(third_party_imports(file) for file in PACKAGE.rglob("*.py")))
    distributions = importlib.metadata.packages_distributions()
    names = {canonical(d) for name in used for d in distributions.get(name, ())}
    assert set(requirements()) - NEEDED_BY_OTHERS <= names


def test_every_core_dependency_has_a_lower_bound_that_the_tests_run_with():
    def numbers(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", version)[:3])

    for name, bound in requirements().items():
        lower = re.search(r">=([\d.]+)", bound)
        assert lower, f"{name} has no lower bound"
        assert numbers(importlib.metadata.version(name)) >= numbers(lower[1]), name


def test_importing_the_package_imports_no_framework():
    loaded = run_python("import sys, vit_jax; print(*sys.modules)").split()
    assert "vit_jax" in loaded
    assert not {"flax", "grain", "jax", "numpy", "optax"} & set(loaded)


def test_importing_every_module_starts_no_device_and_needs_no_other_framework():
    # A None entry makes Python refuse the import.
    printed = run_python(
        "import sys\n"
        "sys.modules.update(tensorflow=None, torch=None)\n"
        "import importlib, pkgutil, vit_jax\n"
        "for module in pkgutil.walk_packages(vit_jax.__path__, 'vit_jax.'):\n"
        "    if '.convert' not in module.name and '__main__' not in module.name:\n"
        "        importlib.import_module(module.name)\n"
        "import jax\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"
        "print(jax.device_count('cpu'))\n"
    )
    # The number of devices can only be set while no device has been started.
    assert printed.split() == ["3"]


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_the_recipes_alone(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    for name in ("vit_jax", "configs", "tests"):
        shutil.copytree(REPOSITORY / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", source]
    subprocess.run(command, check=True, capture_output=True)

    (wheel,) = (source / "dist").glob("*.whl")
    files = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    modules = {f"vit_jax/{f.relative_to(PACKAGE)}" for f in PACKAGE.rglob("*.py")}
    recipes = {f"vit_jax/configs/{f.name}" for f in REPOSITORY.glob("configs/*.py")}
    assert files == modules | recipes


def test_make_without_a_suitable_python_says_what_to_install(tmp_path):
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cat", "rm", "sh"):
        (tools / name).symlink_to(shutil.which(name))
    old_python = tools / "python3"
    old_python.write_text("#!/bin/sh\nexit 1\n")
    old_python.chmod(0o755)
    made = subprocess.run(
        [shutil.which("make"), "demo"],
        cwd=tmp_path,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
    )
    assert made.returncode != 0
    assert "needs Python >= 3.11" in made.stderr
    assert not (tmp_path / ".venv").exists()
