"""Memory, FLOPs, traffic and time of a compiled function, as the compiler counts them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from xmodal.core.text_table import align_columns

_GIB = 2**30


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

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as plain values."""
        return dataclasses.asdict(self) | {"peak_bytes": self.peak_bytes}


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
