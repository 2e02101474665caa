"""The number of devices changes neither losses nor figures."""

import pytest

from tests.end_to_end import runs


@pytest.mark.slow
def test_one_and_eight_devices_agree_for_a_hundred_steps(tmp_path):
    for devices in (1, 8):
        runs.train(tmp_path / str(devices), devices=devices)
    one, eight = runs.losses(tmp_path / "1"), runs.losses(tmp_path / "8")
    assert list(one) == list(range(1, 101))
    assert max(abs(one[step] - eight[step]) for step in one) < 1e-5
    last_one, last_eight = runs.rows(tmp_path / "1")[-1], runs.rows(tmp_path / "8")[-1]
    assert last_one["eval/examples"] == last_eight["eval/examples"] == 360
    assert last_one["eval/accuracy"] == last_eight["eval/accuracy"]
