"""The processes of a run: how they find each other, and their messages on the host.

Messages use JAX's key-value store, which needs no device, so processes that disagree exit with an
error before the first collective, which would otherwise abort or hang.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import jax
from absl import logging
from jax._src import distributed  # jax.distributed has no public key-value store
from jax.experimental import multihost_utils

from xmodal.core.config import flatten_section
from xmodal.core.errors import UserError

VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")

# Exit code after a failure of another process; 128 + SIGTERM means that the state was saved.
TRY_AGAIN = 75  # EX_TEMPFAIL

_PREFIX = "xmodal"
# Hosts may keep the same files in different folders.
_OF_A_HOST = ("data_dir", "manual_dir", "ratings_dir")
_CALLS: Counter[str] = Counter()
_STOP = "stop"
_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.05, 1.0
_LOG_SECONDS = 30.0


@contextlib.contextmanager
def connected(settings: Mapping[str, Any]) -> Iterator[None]:
    """Connects the processes of a run (see `initialize`); if one fails, it tells the others why.

    Args:
      settings: those of this process, see `check_equal`.

    Raises:
      UserError: the processes cannot connect, or differ in settings or code.
    """
    initialize()
    with _ended_with_a_peer(), _announced_failure():
        check_equal(settings)
        yield


def initialize() -> None:
    """Connects the processes of a multi-host run; does nothing in a single process.

    TPU VMs find each other through their metadata. Elsewhere, `VARIABLES` identify the processes.

    Raises:
      UserError: some of the variables are missing, one is not a valid number, or a process
        did not connect.
    """
    if jax.distributed.is_initialized():
        return
    given = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
    if given:
        _connect(*_read_variables(given))
    elif os.environ.get("TPU_ML_PLATFORM") == "JAX":  # Set by JAX itself where it finds TPU chips.
        jax.distributed.initialize()
    if count() > 1:
        # A handler of `signal` would run in the main thread, after the end.
        ctypes.CDLL(None).signal(signal.SIGABRT, _ABORTED)


def _read_variables(given: Mapping[str, str]) -> tuple[str, int, int]:
    if missing := [name for name in VARIABLES if name not in given]:
        raise UserError(
            f"{' and '.join(given)} set, but not {' and '.join(missing)}: set all three variables "
            "in every process of a run, or none of them for a run of one process."
        )
    address, *numbers = (given[name] for name in VARIABLES)
    for name, text in zip(VARIABLES[1:], numbers, strict=True):
        if not text.isdecimal():
            raise UserError(f"{name} is {text!r}; it must be an integer.")
    number, own = map(int, numbers)
    if own >= number:
        raise UserError(
            f"JAX_PROCESS_ID is {own}; with JAX_NUM_PROCESSES={number} it must be less than that."
        )
    if not address.rpartition(":")[2].isdecimal():
        raise UserError(f"JAX_COORDINATOR_ADDRESS is {address!r}; it must be HOST:PORT.")
    return address, number, own


def _connect(address: str, number: int, own: int) -> None:
    logging.info("Process %d of %d: waiting for the others at %s.", own, number, address)
    try:
        jax.distributed.initialize(address, number, own)
    except RuntimeError as error:
        raise UserError(
            f"Process {own} could not join the {number} processes at {address}: "
            f"{str(error).splitlines()[0]}"
        ) from error


# JAX's own functions initialize the backend, which blocks until all processes join.
def count() -> int:
    """Returns the number of processes of the run."""
    return distributed.global_state.num_processes or 1


def index() -> int:
    """Returns the number of this process."""
    return distributed.global_state.process_id or 0


def check_equal(settings: Mapping[str, Any]) -> None:
    """Compares the settings and the code of all processes; every process calls it once.

    Args:
      settings: nested settings of this process, as a user writes them: {"config": {"seed": 0}}.

    Raises:
      UserError: names what differs between process 0 and another one, or the process that failed
        before it got here.
    """
    if count() == 1:
        return
    flat = {"version of the code": _hash_code()}
    flat |= {
        path: json.dumps(value, default=str)
        for path, value in flatten_section(settings).items()
        if path.rpartition(".")[2].removeprefix("--") not in _OF_A_HOST
    }
    text = json.dumps(flat, sort_keys=True)  # Commands may collect flags in a set.
    _set(f"settings/{index()}", text)
    digests = gather("compare the settings", hashlib.sha256(text.encode()).hexdigest())
    different = [number for number, each in enumerate(digests) if each != digests[0]]
    if different:
        what = "report its settings"
        first, other = (json.loads(_wait(f"settings/{i}", i, what)) for i in (0, different[0]))
        differences = [
            f"{key} is {first.get(key, 'missing')} in process 0 and {other.get(key, 'missing')} "
            f"in process {different[0]}"
            for key in sorted(first.keys() | other.keys())
            if first.get(key) != other.get(key)
        ]
        raise UserError(
            f"All processes of a run need the same command and code: {'; '.join(differences[:10])}."
        )


def gather(what: str, own: str) -> list[str]:
    """Returns one string per process, ordered by index; every process must call it.

    Args:
      what: the step that all processes take, as error messages name it.
      own: the string of this process.

    Raises:
      UserError: a process failed before it got here; gives its reason.
    """
    if count() == 1:
        return [own]
    key = _next_key(f"gather/{what}")
    _set(f"{key}/{index()}", own)
    return [_wait(f"{key}/{each}", each, what) for each in range(count())]


def agree_to_stop() -> bool:
    """Returns whether a process has received SIGTERM, and all processes stop at this call.

    Every process calls it equally often, in the same order. JAX's preemption service finds the
    call that all have yet to make, so a call only compares two numbers. The answer stays true.
    """
    if _CALLS[_STOP] >= 0:
        _CALLS[_STOP] += 1
        if multihost_utils.reached_preemption_sync_point(_CALLS[_STOP]):
            _CALLS[_STOP] = -1
    return _CALLS[_STOP] < 0


def first_does(what: str, function: Callable[[], object]) -> None:
    """Runs a function in process 0, while the others wait; every process calls it.

    Args:
      what: the work, as error messages name it: "compute the features".
      function: called in process 0 only.

    Raises:
      UserError: in processes other than 0: process 0 failed; gives its reason.
    """
    key = _next_key(f"first/{what}")
    if index() > 0:
        _wait(key, 0, what)
        return
    function()
    if count() > 1:
        _set(key, "done")


def _next_key(name: str) -> str:
    """Returns a new key; all processes make their calls in the same order."""
    _CALLS[name] += 1
    return f"{name}/{_CALLS[name]}"


@contextlib.contextmanager
def _ended_with_a_peer() -> Iterator[None]:
    """Ends this process immediately when a CPU collective reports that another process died.

    JAX's shutdown would wait for the dead process and abort after a minute.
    """
    try:
        yield
    except Exception as error:
        if count() == 1 or "Gloo" not in str(error):
            raise
        _end_with_a_peer(str(error).strip().splitlines()[0])


def _end_with_a_peer(reason: str) -> NoReturn:
    print(
        f"\nError: another process of the run is gone ({reason}). Restart the same command in all "
        "processes to resume.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(TRY_AGAIN)


def _end_at_abort(number: int) -> None:
    # JAX's client aborts in a thread of its own when the heartbeat of another process stops; it
    # cannot call a Python function instead (its argument has no Python type).
    if threading.current_thread() is not threading.main_thread():
        _end_with_a_peer("JAX has noticed, see above")


_ABORTED = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end_at_abort)


@contextlib.contextmanager
def _announced_failure() -> Iterator[None]:
    """Tells the processes that wait for this one why it failed."""
    try:
        yield
    except BaseException as error:
        if count() > 1:
            reason = str(error) if isinstance(error, UserError) else repr(error)
            with contextlib.suppress(Exception):  # The coordinator may be gone.
                _set(f"failure/{index()}", f"{socket.gethostname()}: {reason}")
        raise


def _set(key: str, value: str) -> None:
    distributed.global_state.client.key_value_set(f"{_PREFIX}/{key}", value)


def _get(key: str) -> str | None:
    try:
        return distributed.global_state.client.key_value_try_get(f"{_PREFIX}/{key}")
    except jax.errors.JaxRuntimeError as error:
        if "NOT_FOUND" in str(error):
            return None
        raise


def _wait(key: str, peer: int, what: str) -> str:
    """Returns the value that process `peer` sets, or the reason why it never will."""
    started = logged = time.monotonic()
    while True:
        try:
            if (value := _get(key)) is not None:
                return value
            failure = _get(f"failure/{peer}")
        except jax.errors.JaxRuntimeError as error:
            _end_with_a_peer(f"waiting for process {peer} to {what}: {str(error).splitlines()[0]}")
        if failure is not None:
            raise UserError(f"Process {peer} ended before it could {what}. {failure}")
        if (now := time.monotonic()) - logged > _LOG_SECONDS:
            logged = now
            logging.info("Waiting %.0f s for process %d to %s.", now - started, peer, what)
        # So that a wait is at most a twentieth longer than it has to be.
        pause = max((now - started) / 20, _SHORTEST_POLL_SECONDS)
        time.sleep(min(pause, _LONGEST_POLL_SECONDS))


def _hash_code() -> str:
    """Returns a hash of the package's source files, and the version of JAX."""
    digest = hashlib.sha256(jax.__version__.encode())
    root = pathlib.Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
