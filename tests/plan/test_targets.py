"""Tests vit_jax/plan/targets.py."""

import pytest

from vit_jax.devices import DEVICES
from vit_jax.plan.targets import USUAL, parse_target


@pytest.mark.parametrize(
    ("name", "count", "topology"),
    [
        ("tpu:v5e:4x4", 16, (4, 4)),
        ("tpu:v4:2x2x4", 16, (2, 2, 4)),
        ("tpu:v5p:8x8x12", 768, (8, 8, 12)),
        ("gpu:h100:8", 8, ()),
    ],
)
def test_a_name_gives_devices_and_topology(name, count, topology):
    target = parse_target(name)
    assert (target.name, target.count, target.topology) == (name, count, topology)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v5e", "must be tpu:MODEL:TOPOLOGY"),
        ("tpu:v5e:", "must be tpu:MODEL:TOPOLOGY"),
        ("tpu:v5f:4x4", r"device 'v5f' is not known.*Did you mean v5p\?|v5e\?"),
        ("tpu:h100:2x2", "h100 is a gpu"),
        ("tpu:v5e:3x3", "no such slice of v5e; there are 1x1, 2x2"),
        ("tpu:v5e:2x2x1", "no such slice of v5e"),
        ("tpu:v4:4x4", "no such slice of v4"),
        ("tpu:v4:0x4x4", "no such slice of v4.*and larger ones"),
        ("gpu:h100:0", "a number of 1 or more"),
        ("gpu:h100:2x2", "a number of 1 or more"),
    ],
)
def test_what_does_not_exist_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        parse_target(name)


def test_every_known_device_has_a_usual_machine():
    assert {parse_target(name).model for name in USUAL} == set(DEVICES)
