"""One process for all; `end_to_end/test_processes.py` has two real ones."""

import jax
import numpy as np
import pytest

from vit_jax import processes


@pytest.fixture
def two(monkeypatch):
    """Makes this one of two processes; the dict's "other" is what the other gives."""
    said = {"other": 0}
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(
        processes.multihost_utils,
        "process_allgather",
        lambda number: np.array([number, said["other"]]),
    )
    return said


def test_one_process_leads_itself_and_raises_what_went_wrong():
    acts = []
    processes.lead(lambda: acts.append(1), "no.")
    assert acts == [1]
    assert processes.largest(3) == 3
    with pytest.raises(ZeroDivisionError):
        processes.lead(lambda: 1 / 0, "no.")


def test_only_process_0_acts(two, monkeypatch):
    acts = []
    processes.lead(lambda: acts.append(0), "no.")
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    processes.lead(lambda: acts.append(1), "no.")
    assert acts == [0]


def test_what_fails_on_process_0_ends_the_others_too(two, monkeypatch):
    two["other"] = 1
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    with pytest.raises(ValueError, match=r"the folder is closed\. Process 0 says more"):
        processes.lead(lambda: None, "the folder is closed.")


def test_the_largest_is_that_of_all(two):
    two["other"] = 2
    assert processes.largest(1) == 2
    assert processes.largest(5) == 5
