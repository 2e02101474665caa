"""What a course heeds between two steps."""

from types import SimpleNamespace

import pytest

from vit_jax.checkpoint import SaveFailed
from vit_jax.train.course import Course


def fails():
    raise SaveFailed("the disk")


@pytest.mark.parametrize(
    ("check", "message"), [(fails, "the disk"), (lambda: None, "another process")]
)
def test_a_failed_save_ends_all_processes_when_all_know_of_it(check, message):
    steps = SimpleNamespace(parts=None)
    saving = SimpleNamespace(check=check, minutes_passed=lambda: False)
    stop, hold = SimpleNamespace(signal=0), SimpleNamespace(look=lambda: "")
    course = Course(steps, saving, None, None, None, None, stop, hold)
    given = []
    agreed = iter([(0, 0, 0, 0), (0, 0, 0, 1)])

    def agree(*numbers):
        given.append(numbers)
        return next(agreed)

    course.agree = agree
    assert not course.heed()
    with pytest.raises(SaveFailed, match=message):
        course.heed()
    assert given == [(0, False, False, check is fails)] * 2
