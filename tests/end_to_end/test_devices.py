"""The number of devices changes neither losses nor figures."""

import numpy as np
import pytest

from tests.end_to_end import runs


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("one")
    runs.train(workdir, devices=1)
    return workdir


def largest_difference(one, other):
    one, other = runs.losses(one), runs.losses(other)
    assert list(one) == list(other) == list(range(1, 101))
    return max(abs(one[step] - other[step]) for step in one)


@pytest.mark.slow
def test_one_and_eight_devices_agree_for_a_hundred_steps(on_one_device, tmp_path):
    runs.train(tmp_path, devices=8)
    assert largest_difference(on_one_device, tmp_path) < 1e-5
    last_one, last_eight = runs.rows(on_one_device)[-1], runs.rows(tmp_path)[-1]
    assert last_one["eval/examples"] == last_eight["eval/examples"] == 360
    assert last_one["eval/accuracy"] == last_eight["eval/accuracy"]
    one, eight = runs.arrays(on_one_device), runs.arrays(tmp_path)
    assert one.keys() == eight.keys()
    for name, array in one.items():
        # A key's bias changes no attention: its gradient is rounding alone.
        if "/params/" in name and not name.endswith("key/bias"):
            np.testing.assert_allclose(array, eight[name], atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_a_run_killed_on_four_devices_goes_on_on_two(on_one_device, tmp_path):
    runs.train_until(tmp_path, runs.reached(tmp_path, 45), runs.KILL, devices=4)
    said = runs.train(tmp_path, devices=2)
    assert "going on from the checkpoint of step" in said
    assert largest_difference(on_one_device, tmp_path) < 1e-5
