"""What the programs of a run cost: memory, operations and traffic, as the compiler has them."""

import dataclasses
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


@dataclasses.dataclass(frozen=True)
class Cost:
    """One call of a compiled function, on one device.

    XLA counts the body of a loop once, however often it runs, in FLOPs, traffic and time.

    Attributes:
      argument_bytes: bytes of state, parameters and batch.
      temporary_bytes: bytes of intermediate values.
      output_bytes: bytes of results that do not reuse the memory of arguments.
      resident_bytes: bytes of arrays that stay on the device but are not arguments.
      flops: 0 if the compiler does not count them.
      moved_bytes: bytes that all operations read from and write to memory; 0 if the compiler does
        not count them.
      compiler_seconds: the compiler's own estimate of the time; None if it has none.
    """

    argument_bytes: int
    temporary_bytes: int
    output_bytes: int
    resident_bytes: int
    flops: float
    moved_bytes: float
    compiler_seconds: float | None

    @property
    def peak_bytes(self) -> int:
        """All bytes on the device at the same time."""
        return self.argument_bytes + self.temporary_bytes + self.output_bytes + self.resident_bytes


def measure(compiled: jax.stages.Compiled, resident_bytes: int = 0) -> Cost:
    """Returns the cost of one call; `resident_bytes` as in `Cost`."""
    memory, counted = compiled.memory_analysis(), compiled.cost_analysis() or {}
    sizes = {
        name: getattr(memory, f"{name}_size_in_bytes", 0)
        for name in ("argument", "temp", "output", "alias")
    }
    seconds = counted.get("optimal_seconds", 0.0)
    return Cost(
        argument_bytes=sizes["argument"],
        temporary_bytes=sizes["temp"],
        output_bytes=max(sizes["output"] - sizes["alias"], 0),
        resident_bytes=resident_bytes,
        flops=float(counted.get("flops", 0.0)),
        moved_bytes=float(counted.get("bytes accessed", 0.0)),
        # Compilers for CPUs and GPUs give no estimate, or a negative number.
        compiler_seconds=float(seconds) if seconds > 0 else None,
    )


def format_costs(costs: Mapping[str, Cost], capacity: int | None = None) -> str:
    """Returns a table with one row per program; `capacity` is the bytes of a device, if known."""
    header = "GiB per device", "arguments", "temporary", "kept", "peak", "TFLOP", "GB moved", "s"
    rows: list[tuple[str, ...]] = [header]
    for name, cost in costs.items():
        share = f" ({cost.peak_bytes / capacity:.0%})" if capacity else ""
        sizes = (cost.argument_bytes, cost.temporary_bytes, cost.resident_bytes, cost.peak_bytes)
        *others, peak = (f"{size / _GIB:.3g}" for size in sizes)
        seconds = "" if cost.compiler_seconds is None else f"{cost.compiler_seconds:.3g}"
        counted = f"{cost.flops / 1e12:.4g}", f"{cost.moved_bytes / 1e9:.4g}", seconds
        rows.append((name, *others, f"{peak}{share}", *counted))
    return align_columns(rows, right=range(1, len(header)))


def check_fits(cost: Cost, capacity: int | None, what: str) -> None:
    """Raises an error if a program needs more memory than a device has.

    Args:
      cost: cost of the program.
      capacity: memory of a device in bytes; None if not known.
      what: see `compile_program`.
    """
    if capacity is not None and cost.peak_bytes > capacity:
        peak, most, alone = (x / _GIB for x in (cost.peak_bytes, capacity, cost.argument_bytes))
        needs = f"it needs {peak:,.2f} GiB of {most:,.2f} GiB, state and batch alone {alone:,.2f}"
        raise does_not_fit(what, f"{needs} GiB, per device")


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
    return None if known is None else known * _GIB


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
