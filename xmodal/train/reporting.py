"""Reports of a run: scalars (one step late), speed, waiting time and failures."""

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from absl import logging
from etils import epath
from jax.experimental import multihost_utils
from tqdm import tqdm

from xmodal.core.errors import UserError
from xmodal.core.files import finite_or_none
from xmodal.train.event_writer import EventWriter
from xmodal.train.optimization.run_lengths import is_due
from xmodal.train.run_config import RunConfig

# Consecutive skips: one bad batch is plausible; ten mean the run has diverged.
_MOST_SKIPPED = 10

_Step = tuple[int, Mapping[str, jax.Array], np.ndarray, float]
"""A dispatched step; see `Reporter.record`."""


class NonFiniteLossError(UserError):
    """Loss or gradient became NaN or infinite.

    Attributes:
      step: the step.
      evidence: its scalars, the ids of this process's rows, and the last finite scalars.
    """

    def __init__(self, step: int, evidence: Mapping[str, Any]) -> None:
        """Stores the evidence."""
        super().__init__(
            f"Loss or gradient of step {step} is not finite. The last good state is the run's last "
            "checkpoint; the batch's ids and the last finite scalars are in failure.json. Lower "
            "config.optimizer.learning_rate or set config.optimizer.clip_norm; config.non_finite="
            f"'skip' skips up to {_MOST_SKIPPED - 1} such batches in sequence."
        )
        self.step, self.evidence = step, evidence

    def save(self, run_dir: str) -> None:
        """Writes the evidence, with the ids of the global batch; every process calls it."""
        own = np.asarray(self.evidence["image_ids"], np.int32)
        everyone = multihost_utils.process_allgather(own, tiled=True)
        evidence = {**self.evidence, "image_ids": np.asarray(everyone).tolist()}
        if jax.process_index() == 0:
            path = epath.Path(run_dir) / "failure.json"
            path.write_text(json.dumps(evidence, indent=2) + "\n")


class Reporter:
    """Follows a run step by step without holding up the device.

    The scalars of a step are fetched after the next step was dispatched, so the device always has
    work while the host waits for the scalars.

    Attributes:
      losses: the reported losses by step, those before a resumption included.
    """

    def __init__(
        self, writer: EventWriter, settings: RunConfig, losses: Mapping[int, float]
    ) -> None:
        """Starts the clock; `settings` are those of the run, `losses` those reported before."""
        self._writer, self._settings, self.losses = writer, settings, dict(losses)
        self._consecutive_skips = 0
        self._clear()
        self._pending: _Step | None = None
        self._last_finite: dict[str, Any] = {}

    def _clear(self) -> None:
        """Starts the totals of the next report."""
        self._started = time.monotonic()
        self._waiting = self._paused = self._flops = 0.0
        self._scalars: list[Mapping[str, np.ndarray]] = []

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent here counts as waiting for data."""
        start = time.monotonic()
        yield
        self._waiting += time.monotonic() - start

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time spent here (evaluation, saving) counts neither as training nor as waiting.

        Raises:
          NonFiniteLossError: the last step failed, so its state is not worth evaluating.
        """
        self._read(None)
        start = time.monotonic()
        yield
        self._paused += time.monotonic() - start

    def record(
        self,
        step: int,
        scalars: Mapping[str, jax.Array],
        image_ids: np.ndarray,
        flops: float = 0.0,
    ) -> None:
        """Takes the step just dispatched and reads the scalars of the step before.

        Args:
          step: its number.
          scalars: its scalars.
          image_ids: ids of this process's rows of its batch.
          flops: its FLOPs on one device, as the compiler counts them; 0 if unknown.

        Raises:
          NonFiniteLossError: the step before had a non-finite loss or gradient.
        """
        self._read((step, scalars, image_ids, flops))

    def _read(self, following: _Step | None) -> None:
        """Reads the scalars of the pending step, and keeps the following one pending."""
        pending, self._pending = self._pending, following
        if pending is None:
            return
        step, scalars, image_ids, flops = pending
        fetched = {name: np.asarray(x) for name, x in jax.device_get(dict(scalars)).items()}
        values = {name: float(value) for name, value in fetched.items()}
        # As the step asks; another scalar, such as one of a loss of your own, may be NaN.
        if all(math.isfinite(values[f"train/{name}"]) for name in ("loss", "gradient_norm")):
            self._consecutive_skips, self._last_finite = 0, {"step": step, **values}
            self._scalars.append(fetched)
            self._flops += flops
        else:
            evidence = {
                "step": step,
                "image_ids": image_ids.tolist(),
                "scalars": {name: repr(value) for name, value in values.items()},
                "last_finite_scalars": finite_or_none(self._last_finite),
            }
            self._consecutive_skips += 1
            may_skip = self._settings.non_finite == "skip"
            if not may_skip or self._consecutive_skips >= _MOST_SKIPPED:
                raise NonFiniteLossError(step, evidence)
            logging.warning(
                "Loss or gradient of step %d is not finite; it is skipped. Images: %s.",
                *(step, evidence["image_ids"]),
            )
        if self._scalars and is_due(step + 1, self._settings.log_every, self._settings.total_steps):
            self._report(step + 1)

    def _report(self, done: int) -> None:
        count, total_steps = len(self._scalars), self._settings.total_steps
        training = max(time.monotonic() - self._started - self._paused, 1e-9)
        scalars = {
            # For a count, the current value says more than a mean.
            name: last.item()
            if np.issubdtype(last.dtype, np.integer)
            else np.mean([values[name] for values in self._scalars], dtype=float).item()
            for name, last in self._scalars[-1].items()
        }
        perf = {
            "train_perf/examples_per_second": count * self._settings.batch_size / training,
            "train_perf/data_wait_share": self._waiting / training,
            "train_perf/eta_seconds": (total_steps - done) * training / count,
        }
        if self._flops:
            perf["train_perf/device_tflops_per_second"] = self._flops / training / 1e12
        if (stats := jax.local_devices()[0].memory_stats()) and "peak_bytes_in_use" in stats:
            perf["train_perf/peak_device_gib"] = stats["peak_bytes_in_use"] / 2**30
        self._writer.write_scalars(done, scalars | perf)
        self.losses[done] = scalars["train/loss"]
        self._clear()
        rate = perf["train_perf/examples_per_second"]
        logging.info(
            "step %d/%d  loss %.4f  %s examples/s  %s left  data wait %.0f %%",
            *(done, total_steps, scalars["train/loss"]),
            f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}",
            tqdm.format_interval(perf["train_perf/eta_seconds"]),
            100 * perf["train_perf/data_wait_share"],
        )
