"""Published speed of devices, and the least time that a program takes on them."""

import dataclasses

import jax

from xmodal.train.costs import Cost


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """A device as JAX counts it: a core of TPU v2 and v3, a chip of all others.

    Attributes:
      memory_gib: memory of the device.
      tflops: published peak of dense bfloat16 products (float16 before Ampere), 10**12 per second.
      bandwidth: memory bandwidth, 10**9 bytes per second.
    """

    memory_gib: float
    tflops: float
    bandwidth: float


# By device kind, as JAX names it. Figures from the manufacturers.
ACCELERATORS = {
    "TPU v2": Accelerator(8, 22.5, 350),
    "TPU v3": Accelerator(16, 61.5, 450),
    "TPU v4": Accelerator(32, 275, 1228),
    "TPU v5": Accelerator(95, 459, 2765),
    "TPU v5p": Accelerator(95, 459, 2765),
    "TPU v5 lite": Accelerator(16, 197, 819),
    "TPU v6 lite": Accelerator(32, 918, 1640),
    "Tesla V100-SXM2-16GB": Accelerator(16, 125, 900),
    "Tesla V100-SXM2-32GB": Accelerator(32, 125, 900),
    "Tesla V100-PCIE-16GB": Accelerator(16, 112, 900),
    "Tesla V100-PCIE-32GB": Accelerator(32, 112, 900),
    "Tesla T4": Accelerator(16, 65, 320),
    "NVIDIA L4": Accelerator(24, 121, 300),
    "NVIDIA A100-SXM4-40GB": Accelerator(40, 312, 1555),
    "NVIDIA A100-PCIE-40GB": Accelerator(40, 312, 1555),
    "NVIDIA A100-SXM4-80GB": Accelerator(80, 312, 2039),
    "NVIDIA A100 80GB PCIe": Accelerator(80, 312, 1935),
    "NVIDIA H100 80GB HBM3": Accelerator(80, 989, 3350),
    "NVIDIA H100 PCIe": Accelerator(80, 756, 2000),
    "NVIDIA H200": Accelerator(141, 989, 4800),
}


def find(device: jax.Device) -> Accelerator | None:
    """Returns the figures of a device; None if they are not known."""
    return ACCELERATORS.get(device.device_kind)


def estimate_seconds(cost: Cost, accelerator: Accelerator | None) -> float | None:
    """Returns the compiler's estimate, else a lower bound from products and traffic."""
    if cost.compiler_seconds is not None or accelerator is None:
        return cost.compiler_seconds
    products = cost.flops / (accelerator.tflops * 1e12)
    return max(products, cost.moved_bytes / (accelerator.bandwidth * 1e9)) or None
