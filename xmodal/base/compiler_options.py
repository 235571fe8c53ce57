"""Options of the XLA compiler."""

from typing import Any

import jax

# LLVM takes most of the time of a start on a CPU. For a training step, its first level takes three
# quarters of the time of its third. The quickstart's step is as fast, since XLA itself vectorizes
# loops; that of an EfficientNet takes 3 % longer.
_OPTIONS: dict[str, dict[str, Any]] = {"cpu": {"xla_backend_optimization_level": 1}}
# XLA's YNNPACK takes four times as long as its own code for the gradient of a convolution's kernel;
# of an embedding, it is faster. Sums stay with YNNPACK: over the axes of a picture, XLA's own code
# adds one number to the next, 4e-4 off after a million float32 numbers.
_STEP_OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}
}


def compiler_options(platform: str) -> dict[str, Any]:
    """Returns options with which large programs compile faster and run about as fast.

    There are none with `JAX_DISABLE_MOST_OPTIMIZATIONS`, which asks for even less.

    Args:
      platform: of the devices, such as "cpu".
    """
    if jax.config.read("jax_disable_most_optimizations"):
        return {}
    return dict(_OPTIONS.get(platform, {}))


def step_options(platform: str) -> dict[str, Any]:
    """Returns options of a training step alone, which not every version of XLA has.

    Args:
      platform: of the devices, such as "cpu".
    """
    return dict(_STEP_OPTIONS.get(platform, {}))
