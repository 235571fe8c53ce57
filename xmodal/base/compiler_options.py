"""Options of the XLA compiler."""

from typing import Any

# LLVM takes most of the time of a start on a CPU. For a training step, its first level takes three
# quarters of the time of its third. The quickstart's step is as fast, since XLA itself vectorizes
# loops; that of an EfficientNet takes 3 % longer.
_OPTIONS: dict[str, dict[str, Any]] = {"cpu": {"xla_backend_optimization_level": 1}}


def compiler_options(platform: str) -> dict[str, Any]:
    """Returns options with which large programs compile faster and run about as fast.

    Args:
      platform: of the devices, such as "cpu".
    """
    return dict(_OPTIONS.get(platform, {}))
