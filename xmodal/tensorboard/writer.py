"""The writer of TensorBoard files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax

from xmodal.console import quietly

if TYPE_CHECKING:
    from clu import metric_writers


def make_writer(folder: str) -> "metric_writers.MetricWriter":
    """Opens a clu writer to TensorBoard files in `folder`, on process 0 only.

    tensorflow is imported here and not above: training needs it for nothing else.
    """
    with quietly():
        import tensorflow as tf
        from clu import metric_writers

        tf.config.set_visible_devices([], "GPU")  # it would take all of its memory to write a file
        writers = [metric_writers.SummaryWriter(folder)] if jax.process_index() == 0 else []
    return metric_writers.AsyncMultiWriter(writers)


def flat_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`{"optimizer.learning_rate": 0.001}` from a nested config, values TensorBoard can show."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": v for inner, v in flat_config(value).items()}
        else:
            flat[key] = value if isinstance(value, bool | int | float | str) else str(value)
    return flat
