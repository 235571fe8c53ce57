"""Traces of some training steps, for TensorBoard's profile tab."""

import contextlib
from collections.abc import Callable, Iterator

import jax
from absl import logging

from xmodal.train.sections import ProfileConfig


@contextlib.contextmanager
def profiler(config: ProfileConfig | None, run_dir: str) -> Iterator[Callable[[int], None]]:
    """Yields a function to call before every step, which starts and stops the trace.

    Every host writes its trace to `RUN_DIR/plugins/profile`.
    """
    last: int | None = None  # The step before which a trace that has begun ends.

    def before(step: int) -> None:
        nonlocal last
        if config is not None and step == config.start:
            logging.info("Tracing %d steps from step %d on.", config.steps, step)
            jax.profiler.start_trace(run_dir)
            last = step + config.steps
        elif step == last:
            jax.profiler.stop_trace()
            last = None

    yield before
    if last is not None:  # The run ends before the last traced step.
        jax.profiler.stop_trace()
