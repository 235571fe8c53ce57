"""Memory, FLOPs and traffic of a compiled step, as the compiler counts them."""

import jax


def count_flops(compiled: jax.stages.Compiled) -> float:
    """Returns the FLOPs of one step on one device; 0 where the compiler does not count them."""
    return float((compiled.cost_analysis() or {}).get("flops", 0.0))


def describe(compiled: jax.stages.Compiled) -> str:
    """Returns memory, FLOPs and traffic of one step on one device, in words."""
    memory = compiled.memory_analysis()
    if memory is None:
        return "This backend gives no memory analysis."
    traffic = (compiled.cost_analysis() or {}).get("bytes accessed", 0.0)
    return (
        f"One step per device: {memory.argument_size_in_bytes / 2**30:.2f} GiB of state and batch, "
        f"{memory.temp_size_in_bytes / 2**30:.2f} GiB of temporaries, "
        f"{count_flops(compiled) / 1e9:.1f} GFLOP, {traffic / 1e9:.1f} GB moved."
    )
