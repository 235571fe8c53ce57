"""The environment of processes that run once, where most of the time is compilation."""

# Emitters of fused loops take a third of the time of compilation, and parts of a module that are
# compiled side by side are dearer than the whole.
_XLA_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def variables(devices: int) -> dict[str, str]:
    """The environment of a process that sees this many virtual CPU devices."""
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {_XLA_FLAGS}",
    }
