"""Memory of devices, and TPU slices that this machine does not have."""

import os
from typing import Any

import jax

from xmodal.core.errors import UserError

# GiB of a device as JAX counts it: a core of TPU v2 and v3, a chip of all others.
_TPU_MEMORY = {
    "TPU v2": 8,
    "TPU v3": 16,
    "TPU v4": 32,
    "TPU v5": 95,
    "TPU v5p": 95,
    "TPU v5 lite": 16,
    "TPU v6 lite": 32,
}
# Without these, libtpu queries a TPU VM's metadata server, warns, and allows only one process.
_LIBTPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v3-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def capacity(device: Any) -> int | None:
    """Returns the bytes of a device's memory; None if they are not known.

    For a CPU device, this is its share of the host's memory.
    """
    if device.platform == "cpu":
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return pages * size // jax.local_device_count()
    if device in jax.devices() and (stats := device.memory_stats()) and "bytes_limit" in stats:
        return stats["bytes_limit"]
    known = _TPU_MEMORY.get(device.device_kind)
    return None if known is None else known * 2**30


def slice_devices(topology: str) -> list[Any]:
    """Returns the devices of a TPU slice, for which libtpu compiles on any machine.

    Args:
      topology: as libtpu names it, `v3:4x4` or `v5e:4x8`: generation, and chips along each axis.
    """
    for variable, value in _LIBTPU.items():
        os.environ.setdefault(variable, value)
    # Keep this process's arrays on the host.
    jax.config.update("jax_platforms", "cpu")
    from jax.experimental import topologies

    # The two cores of a chip are one device, as on real machines.
    options = {"chip_config_name": "megacore"} if topology.startswith("v4") else {}
    try:
        import libtpu  # noqa: F401

        found = topologies.get_topology_desc(platform="tpu", topology_name=topology, **options)
    except (ImportError, jax.errors.JaxRuntimeError, NotImplementedError, ValueError) as error:
        raise UserError(
            f"--topology={topology!r} cannot be compiled for: {str(error).strip()[:300]}. Install "
            "'xmodal[tpu]', which has libtpu, and give GENERATION:CHIPS, such as v3:4x4, "
            "v4:2x4x4, v5e:4x8, v5p:2x4x4 or v6e:4x8."
        ) from error
    return found.devices
