"""Device figures are looked up by the full device name."""

import types

import pytest

from xmodal.train.costs import accelerators


@pytest.mark.parametrize(
    ("kind", "bandwidth"),
    [
        ("TPU v3", 450),
        ("TPU v5 lite", 819),
        ("TPU v5p", 2765),
        ("NVIDIA A100 80GB PCIe", 1935),
        ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA L4", 300),
        ("NVIDIA L40S", None),
        ("TPU v4 lite", None),
        ("cpu", None),
    ],
)
def test_a_device_that_is_not_known_has_no_figures(kind, bandwidth):
    found = accelerators.find(types.SimpleNamespace(device_kind=kind))
    assert (found and found.bandwidth) == bandwidth
