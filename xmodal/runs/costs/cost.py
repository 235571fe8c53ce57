"""Memory, FLOPs, traffic and time of a compiled function, as the compiler counts them."""

import dataclasses

import jax

from xmodal.runs.costs.accelerators import Accelerator
from xmodal.runs.costs.collectives import Collectives, count_collectives
from xmodal.runs.costs.program import read_program
from xmodal.runs.costs.traffic import count_moved, count_traffic

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
      moved_bytes: bytes that all operations read from and write to main memory (HBM); 0 if the
        compiler does not count them.
      collectives: collectives by kind, counted once per iteration of a loop.
      loops: how often each loop runs, if the compiler knows.
      traffic: bytes by part of the model and kind of operation, see `traffic.count_traffic`,
        counted once per iteration of a loop.
      compiler_seconds: the compiler's own estimate of the time; None if it has none.
    """

    argument_bytes: int
    temporary_bytes: int
    output_bytes: int
    resident_bytes: int
    flops: float
    moved_bytes: float
    collectives: dict[str, Collectives]
    loops: tuple[int, ...]
    traffic: dict[str, dict[str, float]]
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


def measure(compiled: jax.stages.Compiled, resident_bytes: int = 0) -> Cost:
    """Returns the cost of one call; `resident_bytes` as in `Cost`."""
    memory, counted = compiled.memory_analysis(), compiled.cost_analysis() or {}
    program = read_program(compiled.as_text() or "")
    seconds = counted.get("optimal_seconds", 0.0)
    return Cost(
        argument_bytes=getattr(memory, "argument_size_in_bytes", 0),
        temporary_bytes=getattr(memory, "temp_size_in_bytes", 0),
        output_bytes=max(
            getattr(memory, "output_size_in_bytes", 0) - getattr(memory, "alias_size_in_bytes", 0),
            0,
        ),
        resident_bytes=resident_bytes,
        flops=float(counted.get("flops", 0.0)),
        moved_bytes=count_moved(program, float(counted.get("bytes accessed", 0.0))),
        collectives=count_collectives(program),
        loops=program.loop_lengths(),
        traffic=count_traffic(program),
        # Compilers for CPUs and GPUs give no estimate, or a negative number.
        compiler_seconds=float(seconds) if seconds > 0 else None,
    )


def count_flops(compiled: jax.stages.Compiled) -> float:
    """Returns the FLOPs of one step on one device, see `Cost`; 0 if they are not counted."""
    return float((compiled.cost_analysis() or {}).get("flops", 0.0))


def describe(compiled: jax.stages.Compiled, platform: str) -> str:
    """Describes the memory, FLOPs and traffic of one step on one device of a platform."""
    memory = compiled.memory_analysis()
    if memory is None:
        return "This backend provides no memory analysis."
    counted = compiled.cost_analysis() or {}  # XLA counts at every call.
    flops, traffic = (counted.get(key, 0.0) for key in ("flops", "bytes accessed"))
    # XLA's count includes the arrays that a TPU keeps on the chip. The program's text tells them
    # apart, see `count_moved`, but writing it takes longer than any other part of this.
    moved = "" if platform == "tpu" else f", {traffic / 1e9:.1f} GB moved"
    return (
        f"One step per device: {memory.argument_size_in_bytes / _GIB:.2f} GiB of state and batch, "
        f"{memory.temp_size_in_bytes / _GIB:.2f} GiB of temporaries, "
        f"{flops / 1e9:.1f} GFLOP{moved}, the body of a loop counted once."
    )
