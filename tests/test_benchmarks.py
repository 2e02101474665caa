"""benchmarks/family.py: what it compares, and how it says it."""

import argparse
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def family():
    spec = importlib.util.spec_from_file_location("family", FOLDER / "family.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def count_of(family, name):
    arguments = argparse.Namespace(data="cifar", batch_size=32, steps=500)
    return family.size(family.make_config(arguments, name, seed=0))["parameters"]


def test_the_families_are_of_about_equal_size(family):
    names = family.STUDIES["families"]
    counts = {name: count_of(family, name) for name in names}
    assert counts["learned_1d"] == 142_026
    for name, count in counts.items():
        assert abs(count / 142_026 - 1) < 0.1, name


def test_every_run_belongs_to_a_study(family):
    assert set(family.RUNS) == {
        name for names in family.STUDIES.values() for name in names
    }


def test_a_difference_within_the_ranges_is_none(family):
    def rows(name, *accuracies):
        common = {"run": name, "parameters": 1, "flops": 2e6}
        common |= {"cpu_seconds": 1.0, "loss": 1.0}
        return [common | {"accuracy": accuracy} for accuracy in accuracies]

    given = rows("a", 0.30, 0.34) + rows("b", 0.33, 0.37) + rows("c", 0.39, 0.41)
    lines = family.table(("a", "b", "c"), given).splitlines()
    assert lines[2:] == [
        "| a | 1 | 2.0 | 1 | 32.0% | 30.0% to 34.0% | 1.000 | none |",
        "| b | 1 | 2.0 | 1 | 35.0% | 33.0% to 37.0% | 1.000 | none |",
        "| c | 1 | 2.0 | 1 | 40.0% | 39.0% to 41.0% | 1.000 | +8.0 |",
    ]
