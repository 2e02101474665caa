"""What processes agree on; `end_to_end/test_processes.py` has two real ones."""

import jax

from vit_jax.train.agreement import Agreement


def test_one_process_agrees_with_itself_at_once():
    agree = Agreement(lag=2)
    assert agree(15, False) == (15, False)
    agree.forget()
    assert agree(0, True) == (0, True)


def test_of_several_each_sees_what_was_given_some_calls_ago(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    agree = Agreement(lag=2)
    assert [agree(number, 0) for number in (7, 8, 9, 0)] == [
        (0, 0),
        (0, 0),
        (7, 0),
        (8, 0),
    ]


def test_what_was_acted_on_is_forgotten(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    agree = Agreement(lag=1)
    agree(1)
    agree.forget()
    assert agree(0) == (0,)
    assert agree(0) == (0,)
