"""Messages between processes, in real processes connected by JAX's coordination service."""

import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from tests import short_runs
from xmodal.core import processes
from xmodal.core.progress import STOPPED

ADDRESS, NUMBER, INDEX = processes.VARIABLES

# Each process gets a number and an expression that uses it.
PROGRAM = """
import functools, sys, time

import jax
from absl import logging
from xmodal.core import processes
from xmodal.core.config import UserError

logging.set_verbosity(logging.INFO)


def fail(text):
    raise RuntimeError(text)


index = int(sys.argv[1])
# So that a dead process is noticed within a test.
jax.distributed.initialize = functools.partial(
    jax.distributed.initialize, heartbeat_timeout_seconds=10
)
try:
    with processes.connected({"config": eval(sys.argv[2])}):
        exec(sys.argv[3])
except UserError as error:
    sys.exit(f"Error: {error}")
"""


@pytest.fixture
def start_two():
    """Starts two processes."""
    started, port = [], short_runs.free_port()

    def start(config, program="pass"):
        for index in range(2):
            variables = short_runs.variables(devices=1) | {
                ADDRESS: f"localhost:{port}",
                NUMBER: "2",
                INDEX: str(index),
            }
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(index), config, program],
                env=os.environ | variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            started.append(process)
        return started

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def run_two(start_two):
    """Runs two processes; returns their exit codes and outputs."""

    def run(config, program="pass"):
        started = start_two(config, program)
        said = [process.communicate(timeout=120)[0] for process in started]
        return [process.returncode for process in started], said

    return run


@pytest.mark.slow
def test_processes_that_differ_name_what_differs(run_two):
    config = "{'seed': 0, 'model': {'width': (8, 16)[index]}, **[{}, {'l2': None}][index]}"
    codes, said = run_two(config, "print('trained')")
    assert codes == [1, 1], said
    for each in said:
        assert "config.l2 is missing, null; config.model.width is 8, 16" in each
        assert "seed" not in each
        assert "trained" not in each


@pytest.mark.slow
def test_who_waits_for_a_process_that_fails_gets_the_reason(run_two):
    program = """
def compute():
    time.sleep(1)
    raise ValueError("no space for features")
processes.first_does("compute the features", compute)
"""
    codes, said = run_two("{}", program)
    assert codes == [1, 1], said
    host = socket.gethostname()
    assert (
        f"Error: Process 0 ended before it could compute the features. {host}: "
        "ValueError('no space for features')" in said[1]
    )


WORK = """
from xmodal.core.progress import progress, stoppable

with stoppable("try again"):
    with progress("Embedding", 3000, jointly=True) as advance:
        for item in range(3000):
            print("item", item, flush=True)
            for _ in range(index):  # The second process is slower, and has work of its own.
                with progress("Reading", 1) as read:
                    time.sleep(0.02)
                    read(1)
            time.sleep(0.02)
            advance(1)
"""


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_at_the_same_report(start_two):
    pair = start_two("{}", WORK)
    assert any(line == "item 3\n" for line in pair[1].stdout)
    pair[1].terminate()
    outputs = [process.communicate(timeout=120)[0] for process in pair]
    assert [process.returncode for process in pair] == [STOPPED] * 2, outputs
    assert all("Stopped by a signal (Embedding); try again." in each for each in outputs)
    first, second = (re.findall(r"item (\d+)", each)[-1] for each in outputs)
    assert first == second
    assert int(first) < 2999


WAIT = """
print("started", flush=True)
time.sleep(1000 if index == {killed} else 0)
processes.gather("start", "")
"""


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_the_death_of_a_process_ends_the_other(start_two, killed):
    pair = start_two("{}", WAIT.replace("{killed}", str(killed)))
    for process in pair:
        assert any(line == "started\n" for line in process.stdout)
    pair[killed].kill()
    other = pair[1 - killed]
    said = other.communicate(timeout=120)[0]
    # JAX's heartbeat aborts, unless a message fails first.
    assert other.returncode in (processes.TRY_AGAIN, -signal.SIGABRT), said
    assert "Traceback" not in said
