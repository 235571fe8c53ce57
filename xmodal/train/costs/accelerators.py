"""Memory and speed of devices, and TPU slices that this machine does not have."""

import dataclasses
import os
from typing import Any

import jax

from xmodal.core.errors import UserError

_GIB = 2**30
# Without these, libtpu queries a TPU VM's metadata server, warns, and allows only one process.
_LIBTPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v3-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


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


def capacity(device: Any) -> int | None:
    """Returns the bytes of a device's memory; None if they are not known.

    For a CPU device, this is its share of the host's memory.
    """
    if device.platform == "cpu":
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return pages * size // jax.local_device_count()
    if device in jax.devices() and (stats := device.memory_stats()) and "bytes_limit" in stats:
        return stats["bytes_limit"]
    accelerator = find(device)
    return None if accelerator is None else int(accelerator.memory_gib * _GIB)


def slice_devices(topology: str) -> list[Any]:
    """Returns the devices of a TPU slice, for which libtpu compiles on any machine.

    Args:
      topology: as libtpu names it, `v3:4x4` or `v5e:4x8`: generation, and chips along each axis.

    Raises:
      UserError: libtpu is not installed, or does not know the topology.
    """
    for variable, value in _LIBTPU.items():
        os.environ.setdefault(variable, value)
    # Keep this process's arrays on the host.
    jax.config.update("jax_platforms", "cpu")
    try:
        import libtpu  # noqa: F401
    except ImportError as error:
        raise UserError(
            "--topology compiles with libtpu, which is not installed: pip install 'xmodal[tpu]', "
            "or pip install -e '.[tpu]' in a checkout."
        ) from error
    from jax.experimental import topologies

    # The two cores of a chip are one device, as on real machines.
    options = {"chip_config_name": "megacore"} if topology.startswith("v4") else {}
    try:
        return topologies.get_topology_desc(
            platform="tpu", topology_name=topology, **options
        ).devices
    except (jax.errors.JaxRuntimeError, NotImplementedError, ValueError) as error:
        raise UserError(
            f"--topology={topology!r} is not known to libtpu; give GENERATION:CHIPS, such as "
            "v3:4x4, v4:2x4x4, v5e:4x8, v5p:2x4x4 or v6e:4x8. libtpu says: "
            f"{str(error).strip()[:300]}"
        ) from error
