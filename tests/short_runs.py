"""The environment for processes that run once and spend most of their time compiling."""

import socket

# Emitters of fused loops take a third of the compilation time, and compiling parts of a module in
# parallel takes more time than compiling the whole. jax 0.11 has the first flag only as an extra
# option, and an unknown flag aborts the process.
_XLA_FLAGS = (
    "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters"
    " --xla_cpu_parallel_codegen_split_count=1"
)


def variables(devices: int) -> dict[str, str]:
    """The environment for a process with this many virtual CPU devices."""
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
        # Lines of Python in the programs of XLA; writing them takes a tenth of a short run.
        "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
        # Threads of the products of NumPy, SciPy and torch wait in loops for small ones.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {_XLA_FLAGS}",
    }


def free_port() -> int:
    """A port on which processes can find each other."""
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]
