"""What the programs of a run cost: memory, operations and traffic, as the compiler has them."""

import math
import os
from collections.abc import Mapping
from typing import Any

import jax

from xmodal.core.errors import UserError
from xmodal.core.text_table import align_columns

_GIB = 2**30
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


Cost = dict[str, float]
"""One call of a compiled function on one device, by column of the table; NaN where not known.

GiB of `arguments` (state, parameters and batch), `temporary` values, arrays that are `kept` on the
device but are not arguments, and all at the `peak`; TFLOP, GB moved from and to memory, and the
compiler's own estimate of the seconds. XLA counts the body of a loop once, however often it runs,
in the last three.
"""


def measure(compiled: jax.stages.Compiled, kept_bytes: int = 0) -> Cost:
    """Returns the cost of one call, with `kept_bytes` of other arrays on the device."""
    memory, counted = compiled.memory_analysis(), compiled.cost_analysis() or {}

    def size(name: str) -> float:
        return getattr(memory, f"{name}_size_in_bytes", 0) / _GIB

    used = {"arguments": size("argument"), "temporary": size("temp"), "kept": kept_bytes / _GIB}
    # Outputs may reuse the memory of arguments.
    peak = sum(used.values()) + max(size("output") - size("alias"), 0)
    tflop, moved = counted.get("flops", 0.0) / 1e12, counted.get("bytes accessed", 0.0) / 1e9
    # Compilers for CPUs and GPUs give no estimate, or a negative number.
    seconds = max(counted.get("optimal_seconds", 0.0), 0.0) or math.nan
    return used | {"peak": peak, "TFLOP": tflop, "GB moved": moved, "s": seconds}


def format_costs(costs: Mapping[str, Cost], capacity: float | None = None) -> str:
    """Returns a table with one row per program; `capacity` is a device's GiB, if known."""
    rows = [["GiB per device", *next(iter(costs.values()))]]
    for name, cost in costs.items():
        shown = {column: "" if math.isnan(x) else f"{x:.3g}" for column, x in cost.items()}
        if capacity is not None:
            shown["peak"] += f" ({cost['peak'] / capacity:.0%})"
        rows.append([name, *shown.values()])
    return align_columns(rows, right=range(1, len(rows[0])))


def check_fits(cost: Cost, capacity: float | None, what: str) -> None:
    """Raises an error if a program needs more memory than a device has.

    Args:
      cost: cost of the program.
      capacity: GiB of a device; None if not known.
      what: see `compile_program`.
    """
    if capacity is not None and cost["peak"] > capacity:
        needs = f"it needs {cost['peak']:,.2f} GiB of {capacity:,.2f} GiB, state and batch alone"
        raise does_not_fit(what, f"{needs} {cost['arguments']:,.2f} GiB, per device")


def does_not_fit(what: str, reason: str) -> UserError:
    """Returns the error for a program that needs more memory than a device has."""
    return UserError(
        f"The {what} does not fit: {reason}. In training, --config.model.MODALITY.encoder.remat="
        "True recomputes an encoder's blocks, --config.tasks.NAME.loss.options.engine=ring (or "
        "chunked, on one device) holds no scores of all pairs, --config.accumulation_steps embeds "
        "a batch in parts, with all its negatives, and --config.sharding=\"[('.*', 'fsdp')]\" "
        "splits parameters and optimizer state over the devices; else lower --config.batch_size "
        "or --config.evals.NAME.batch_size."
    )


def capacity(device: Any) -> float | None:
    """Returns the GiB of a device's memory; None if they are not known.

    For a CPU device, this is its share of the host's memory.
    """
    if device.platform == "cpu":
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return pages * size / _GIB / jax.local_device_count()
    if device in jax.devices() and (stats := device.memory_stats()) and "bytes_limit" in stats:
        return stats["bytes_limit"] / _GIB
    return _TPU_MEMORY.get(device.device_kind)


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
