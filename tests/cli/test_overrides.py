"""Telling `--config.KEY=VALUE` from other arguments."""

import pytest

from vit_jax.cli.overrides import take_overrides


def test_both_spellings_and_the_last_value_counts():
    found = take_overrides(
        ["train", "--config.a.b=1", "--workdir=x", "--config.c", "2", "--config.a.b=3"]
    )
    assert found == ({"a.b": "3", "c": "2"}, ["train", "--workdir=x"])


def test_a_value_may_hold_an_equals_sign_or_be_empty():
    assert take_overrides(["--config.a=b=c", "--config.d="])[0] == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("arguments", [["--config.a"], ["--config.a", "--workdir=x"]])
def test_a_key_without_a_value_is_refused(arguments):
    with pytest.raises(ValueError, match=r"--config\.a has no value"):
        take_overrides(arguments)
