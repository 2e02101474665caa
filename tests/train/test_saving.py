"""What a checkpoint holds of a state, and when it is made."""

import time

import flax.struct
import jax.numpy as jnp
import pytest

from vit_jax.checkpoint import complete_steps
from vit_jax.train import saving
from vit_jax.train.saving import Saving, items_of, state_of
from vit_jax.train.state import TrainState

POLICY = {"keep": 2, "keep_every_steps": 0, "every_steps": 0, "every_minutes": 0.0}


@flax.struct.dataclass
class Richer(TrainState):
    """A state with fields that nobody has thought of yet."""

    ema_params: object = None
    counters: object = None


def state(**fields):
    counts = {"step": jnp.int32(3), "nonfinite_steps": jnp.int32(0)}
    return Richer(params={"w": jnp.ones(2)}, opt_state=(), **counts, **fields)


@pytest.mark.parametrize("averages", [None, {"w": jnp.zeros(2)}])
def test_every_field_of_a_state_is_in_the_items_and_comes_back(monkeypatch, averages):
    monkeypatch.setattr(saving, "TrainState", Richer)
    whole = state(ema_params=averages, counters={"skipped": jnp.int32(1)})
    items = items_of(whole)
    weights = {"params"} if averages is None else {"params", "ema_params"}
    assert set(items) == weights | {"training"}
    assert state_of(items) == whole


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"every_steps": 2}, [2, 4, 6]),
        ({"keep_every_steps": 3}, [3, 6]),
        ({"every_steps": 2, "keep_every_steps": 3}, [2, 3, 4, 6]),
        ({}, []),
    ],
)
def test_saves_are_due_at_the_multiples(tmp_path, policy, expected):
    saves = Saving(tmp_path, step=0, **(POLICY | policy))
    assert [step for step in range(1, 7) if saves.due(step)] == expected
    saves.close()


def test_minutes_count_from_the_last_save_on(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    saves = Saving(tmp_path, step=0, **(POLICY | {"every_minutes": 1.0}))
    now[0] = 59.0
    assert not saves.minutes_passed()
    now[0] = 60.0
    assert saves.minutes_passed()
    saves.save(1, state())
    assert not saves.minutes_passed()
    assert saves.saved_step == 1
    saves.close()


def test_without_minutes_no_time_is_too_long(tmp_path, monkeypatch):
    saves = Saving(tmp_path, step=0, **POLICY)
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    assert not saves.minutes_passed()
    saves.close()


def test_permanent_checkpoints_stay_beside_the_newest(tmp_path):
    saves = Saving(tmp_path, step=0, **(POLICY | {"keep_every_steps": 3}))
    for step in range(1, 9):
        saves.save(step, state())
    saves.close()
    assert complete_steps(tmp_path) == [3, 6, 7, 8]
