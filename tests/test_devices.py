"""Tests vit_jax/devices.py."""

import pytest

from vit_jax.devices import DEVICES, by_kind, device


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TPU v4", "v4"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v5p", "v5p"),
        ("TPU v6 lite", "v6e"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_a_device_is_found_by_what_jax_calls_it(kind, name):
    assert by_kind(kind) is DEVICES[name]


@pytest.mark.parametrize("kind", ["cpu", "NVIDIA L40S", "TPU v7x", "NVIDIA GeForce"])
def test_an_unknown_device_is_none(kind):
    assert by_kind(kind) is None


def test_a_misspelt_name_says_which_is_near():
    with pytest.raises(ValueError, match=r"v4, v5e.*Did you mean h100\?"):
        device("H100x")


def test_float32_products_never_outrun_bfloat16():
    for known in DEVICES.values():
        assert 0 < known.peak("float32") <= known.peak("bfloat16")
