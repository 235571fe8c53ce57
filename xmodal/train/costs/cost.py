"""Memory, FLOPs, traffic and time of a compiled function, as the compiler counts them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from xmodal.train.costs.accelerators import Accelerator

_GIB = 2**30
_WIDTH = 30


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

    def estimate_seconds(self, accelerator: Accelerator | None) -> float | None:
        """Returns the compiler's estimate, else a lower bound from products and traffic."""
        if self.compiler_seconds is not None or accelerator is None:
            return self.compiler_seconds
        products = self.flops / (accelerator.tflops * 1e12)
        return max(products, self.moved_bytes / (accelerator.bandwidth * 1e9)) or None

    def share_of_peak(self, accelerator: Accelerator | None) -> float | None:
        """Returns FLOPs per estimated second over the published peak; None if not known."""
        seconds = self.estimate_seconds(accelerator)
        if accelerator is None or not seconds or not self.flops:
            return None
        return self.flops / seconds / (accelerator.tflops * 1e12)

    def to_json(self, accelerator: Accelerator | None) -> dict[str, Any]:
        """Returns the figures as plain values."""
        return dataclasses.asdict(self) | {
            "peak_bytes": self.peak_bytes,
            "estimated_seconds": self.estimate_seconds(accelerator),
            "share_of_peak": self.share_of_peak(accelerator),
        }


def measure(compiled: jax.stages.Compiled, resident_bytes: int = 0) -> Cost:
    """Returns the cost of one call; `resident_bytes` as in `Cost`."""
    memory, counted = compiled.memory_analysis(), compiled.cost_analysis() or {}
    output, alias = (getattr(memory, f"{name}_size_in_bytes", 0) for name in ("output", "alias"))
    seconds = counted.get("optimal_seconds", 0.0)
    return Cost(
        argument_bytes=getattr(memory, "argument_size_in_bytes", 0),
        temporary_bytes=getattr(memory, "temp_size_in_bytes", 0),
        output_bytes=max(output - alias, 0),
        resident_bytes=resident_bytes,
        flops=float(counted.get("flops", 0.0)),
        moved_bytes=float(counted.get("bytes accessed", 0.0)),
        # Compilers for CPUs and GPUs give no estimate, or a negative number.
        compiler_seconds=float(seconds) if seconds > 0 else None,
    )


def describe(cost: Cost) -> str:
    """Describes the memory, FLOPs and traffic of one step on one device."""
    return (
        f"One step per device: {_size(cost.argument_bytes)} of state and batch, "
        f"{_size(cost.temporary_bytes)} of temporaries, {_scaled(cost.flops)}FLOP, "
        f"{_scaled(cost.moved_bytes)}B moved, the body of a loop counted once."
    )


def format_costs(
    costs: Mapping[str, Cost], capacity: int | None, accelerator: Accelerator | None
) -> str:
    """Returns a table with one column per program.

    Args:
      costs: costs by name of the program.
      capacity: memory of a device in bytes; None if not known.
      accelerator: the device; None if not known.
    """

    def peak(cost: Cost) -> str:
        if capacity is None:
            return _size(cost.peak_bytes)
        share = cost.peak_bytes / capacity
        return f"{_size(cost.peak_bytes)} of {_size(capacity)} ({share:.0%})"

    def seconds(cost: Cost) -> str:
        found = cost.estimate_seconds(accelerator)
        return "unknown" if found is None else f"at least {found:.3g} s"

    def share_of_peak(cost: Cost) -> str:
        share = cost.share_of_peak(accelerator)
        return "unknown" if share is None else f"{share:.0%}"

    rows = {
        "": list(costs),
        "arguments": [_size(each.argument_bytes) for each in costs.values()],
        "temporaries": [_size(each.temporary_bytes) for each in costs.values()],
        "optimizer's state": [_size(each.resident_bytes) for each in costs.values()],
        "peak": [peak(each) for each in costs.values()],
        "FLOPs": [_scaled(each.flops) for each in costs.values()],
        "bytes moved": [_scaled(each.moved_bytes) + "B" for each in costs.values()],
        "estimated time": [seconds(each) for each in costs.values()],
        "share of peak": [share_of_peak(each) for each in costs.values()],
    }
    return "\n".join(
        f"  {name:<20}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells)
        for name, cells in rows.items()
    )


def _size(count: int) -> str:
    return f"{count / _GIB:,.2f} GiB" if count >= _GIB / 10 else f"{count / 2**20:,.1f} MiB"


def _scaled(value: float) -> str:
    """Returns a number with the prefix of its unit: "1.5 T"."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}"
    return f"{value:.3g} "
