"""Reports of a run, with a clock that the tests control."""

import json
import math
import types

import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.train import reporting

IDS = np.array([4, 9], np.int32)


class Recorder:
    """Keeps the arguments of an `EventWriter`."""

    def __init__(self):
        self.written = {}

    def write_scalars(self, step, scalars):
        assert step not in self.written
        self.written[step] = dict(scalars)


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(reporting, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def make_reporter(**options):
    writer = Recorder()
    options = {"total_steps": 7, "batch_size": 16, "log_every": 3, "non_finite": "stop"} | options
    return reporting.Reporter(writer, types.SimpleNamespace(**options), {}), writer.written


def losses(value, **others):
    scalars = {"train/loss": value, "train/gradient_norm": 1.0} | others
    return {name: jnp.float32(v) for name, v in scalars.items()}


def test_windows_have_means_of_their_own():
    reporter, written = make_reporter()
    for step, value in enumerate([1.0, 2.0, 6.0, 10.0, 20.0, 60.0, 7.0]):
        reporter.record(step, losses(value), IDS)
    with reporter.paused():
        pass
    # The last step is reported although its window is short.
    assert {step: scalars["train/loss"] for step, scalars in written.items()} == {
        3: 3.0,
        6: 30.0,
        7: 7.0,
    }


def test_speed_waiting_and_eta_leave_out_pauses(clock):
    reporter, written = make_reporter(total_steps=100)
    for step in range(4):
        with reporter.waiting():
            clock.seconds += 0.5
        clock.seconds += 1.5
        reporter.record(step, losses(1.0), IDS, flops=(step + 1) * 1e12)
        if step == 1:
            with reporter.paused():
                clock.seconds += 1000.0
    # Reported when step 2 is read, after four steps of two seconds.
    assert list(written) == [3]
    perf = written[3]
    np.testing.assert_allclose(perf["train_perf/examples_per_second"], 3 * 16 / 8)
    np.testing.assert_allclose(perf["train_perf/data_wait_share"], 0.25)
    np.testing.assert_allclose(perf["train_perf/eta_seconds"], 97 * 8 / 3)
    np.testing.assert_allclose(perf["train_perf/device_tflops_per_second"], (1 + 2 + 3) / 8)


def test_a_failure_carries_the_evidence(tmp_path):
    (reporter, _), name, bad = make_reporter(), "train/gradient_norm", math.inf
    reporter.record(2, losses(3.5), np.array([1, 2]))
    reporter.record(3, losses(4.0, **{name: bad}), IDS)
    with pytest.raises(reporting.NonFiniteLossError, match="step 3 is not finite") as failure:
        reporter.record(4, losses(5.0), np.array([7, 8]))
    assert failure.value.step == 3
    failure.value.save(str(tmp_path))
    evidence = json.loads((tmp_path / "failure.json").read_text())
    assert evidence["step"] == 3
    assert evidence["image_ids"] == [4, 9]
    assert evidence["scalars"][name] == repr(bad)
    assert evidence["last_finite_scalars"] == {
        "step": 2,
        "train/loss": 3.5,
        "train/gradient_norm": 1.0,
    }


def test_steps_that_are_not_finite_are_skipped_until_they_are_many():
    reporter, written = make_reporter(log_every=2, total_steps=100, non_finite="skip")
    values = [1.0, math.nan, math.nan, math.nan, 4.0, math.inf, 6.0]
    for step, value in enumerate(values):
        reporter.record(step, losses(value), IDS)
    with reporter.paused():
        pass
    # Means are over the finite steps; where there are none there is no report.
    assert {step: scalars["train/loss"] for step, scalars in written.items()} == {2: 1.0, 6: 4.0}
    for step in range(7, 17):
        reporter.record(step, losses(math.nan), IDS)
    with pytest.raises(reporting.NonFiniteLossError, match="step 16 is not finite"):
        reporter.record(17, losses(math.nan), IDS)
