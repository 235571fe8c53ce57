"""Memory, FLOPs, traffic and time of a compiled function, as the compiler counts them."""

import dataclasses

import jax

from xmodal.training.accelerators import Accelerator
from xmodal.training.collectives import Collectives, count_collectives
from xmodal.training.program import read_program
from xmodal.training.traffic import count_moved, count_traffic

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Cost:
    """One call of a compiled function, on one device.

    XLA counts the body of a loop once, however often it runs, in FLOPs, traffic and time.

    Attributes:
      argument_bytes: of state, parameters and batch.
      temporary_bytes: of intermediate values.
      output_bytes: of results that do not reuse the memory of arguments.
      resident_bytes: of arrays that stay on the device meanwhile, and are no arguments.
      flops: 0 where the compiler does not count them.
      moved_bytes: read from and written to main memory (HBM) by all operations; 0 where the
        compiler does not count them.
      collectives: by kind, those in a loop as often as it runs.
      loops: how often each loop runs, where the compiler knows.
      traffic: bytes by part of the model and kind of operation, see `traffic.count_traffic`; those
        in a loop as often as it runs.
      compiler_seconds: the compiler's own estimate of the time; None where it has none.
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
        """All that is on the device at a time."""
        return self.argument_bytes + self.temporary_bytes + self.output_bytes + self.resident_bytes

    def estimate_seconds(self, accelerator: Accelerator | None) -> float | None:
        """Returns the compiler's estimate, else the time that products or traffic take at least."""
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
        # Compilers for CPUs and GPUs give none, or a negative number.
        compiler_seconds=float(seconds) if seconds > 0 else None,
    )


def count_flops(compiled: jax.stages.Compiled) -> float:
    """Returns the FLOPs of one step on one device, see `Cost`; 0 where they are not counted."""
    return float((compiled.cost_analysis() or {}).get("flops", 0.0))


def describe(compiled: jax.stages.Compiled) -> str:
    """Returns memory, FLOPs and traffic of one step on one device, in words."""
    memory = compiled.memory_analysis()
    if memory is None:
        return "This backend gives no memory analysis."
    traffic = (compiled.cost_analysis() or {}).get("bytes accessed", 0.0)
    text = compiled.as_text() or ""
    # Reading the whole program would take seconds of every start of a large model.
    loops = ", the body of a loop counted once" if " while(" in text else ""
    # XLA's count has the arrays that a TPU keeps on the chip, see `count_moved`.
    moved = "" if "S(1)" in text else f", {traffic / 1e9:.1f} GB moved"
    return (
        f"One step per device: {memory.argument_size_in_bytes / _GIB:.2f} GiB of state and batch, "
        f"{memory.temp_size_in_bytes / _GIB:.2f} GiB of temporaries, "
        f"{count_flops(compiled) / 1e9:.1f} GFLOP{moved}{loops}."
    )
