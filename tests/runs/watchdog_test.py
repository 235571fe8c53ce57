"""Hanging processes are terminated; others are not."""

import pytest

from tests.base.processes_test import run_two, start_two  # noqa: F401, fixtures
from xmodal.base import processes
from xmodal.base.processes import TRY_AGAIN
from xmodal.runs.watchdog import Watchdog

HANG = """
from xmodal.runs.watchdog import Watchdog

with Watchdog(2.0) as watchdog:
    for step in range(3):
        watchdog.note(f"batch of step {step}")
        time.sleep(60 if index == 1 and step == 2 else 0.1)
        watchdog.note(f"step {step}")
        processes.gather(f"make step {step}", "")
"""
FREEZE = """
import os, signal
from xmodal.runs import watchdog
from xmodal.runs.watchdog import Watchdog

watchdog._ANSWER_SECONDS = 1.0
with Watchdog(2.0) as watch:
    watch.note("batch of step 0")
    processes.gather("start", "")
    if index == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    watch.note("step 0")
    time.sleep(60)
"""
START = """
from xmodal.runs.watchdog import Watchdog

with Watchdog(0.5) as watchdog:
    time.sleep(2.0 if index == 1 else 1.0)
    processes.gather("compile", "")
print("compiled")
"""
MOVE = """
from xmodal.runs.watchdog import Watchdog

with Watchdog(1.0) as watchdog:
    for step in range(8):
        watchdog.note(f"step {step}")
        time.sleep(0.3)
print("trained", processes.statuses()[index].text)
"""


def test_all_processes_end_and_name_the_one_that_hangs(run_two):  # noqa: F811
    codes, said = run_two("{}", HANG)
    # The coordinator may exit before the other process has printed its message.
    assert TRY_AGAIN in codes
    assert 0 not in codes
    sentence = said[codes.index(TRY_AGAIN)]
    assert "did not end within 2 s (config.hang_timeout)" in sentence
    assert "step 2, for 2 s" in sentence.partition("  process 0 on ")[2].partition("\n")[0]
    assert "batch of step 2, for 2 s" in sentence.partition("  process 1 on ")[2]


def test_a_frozen_coordinator_does_not_keep_the_others(start_two):  # noqa: F811
    first, second = start_two("{}", FREEZE)
    said = second.communicate(timeout=60)[0]
    assert second.returncode == TRY_AGAIN
    assert "step 0 did not end within 2 s (config.hang_timeout)" in said
    assert "process 0, the coordinator, does not respond" in said
    assert first.poll() is None


def test_processes_that_move_on_are_left_alone(run_two):  # noqa: F811
    codes, said = run_two("{}", MOVE)
    assert codes == [0, 0], said
    assert all("trained step " in each for each in said)


@pytest.mark.slow
def test_there_is_no_limit_before_the_first_action(run_two):  # noqa: F811
    codes, said = run_two("{}", START)
    assert codes == [0, 0], said


@pytest.mark.parametrize(("number", "limit"), [(1, 0.01), (2, 0.0)])
def test_there_may_be_no_watch(monkeypatch, number, limit):
    monkeypatch.setattr(processes, "count", lambda: number)
    with Watchdog(limit) as watchdog:
        watchdog.note("step 1")
        assert not watchdog._thread.is_alive()
