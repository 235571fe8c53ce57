"""The processes of a run: how they find each other, and their messages on the host.

Messages use JAX's key-value store, which needs no device, so processes that disagree exit with an
error before the first collective, which would otherwise abort or hang.
"""

import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import socket
import sys
import threading
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

# Hosts may keep the same files in different folders.
_OF_A_HOST = ("data_dir", "manual_dir", "ratings_dir")
_CALLS: Counter[str] = Counter()
_STOP_CALLS, _STOPPED = itertools.count(), threading.Event()


@contextlib.contextmanager
def connected(settings: Mapping[str, Any]) -> Iterator[None]:
    """Connects the processes of a run (see `initialize`); if one fails, it tells the others why.

    Args:
      settings: those of this process, see `check_equal`.
    """
    initialize()
    try:
        if count() > 1:
            check_equal(settings)
        yield
    except BaseException as error:
        if "Gloo" in str(error):  # A collective on CPUs.
            _end_with_a_peer(error)
        reason = str(error) if isinstance(error, UserError) else repr(error)
        with contextlib.suppress(Exception):  # The coordinator may be gone.
            _set(f"failure/{index()}", f"{socket.gethostname()}: {reason}")
        raise


def initialize() -> None:
    """Connects the processes of a multi-host run; does nothing in a single process.

    TPU VMs find each other through their metadata. Elsewhere, `VARIABLES` identify the processes.
    If one of them dies, JAX's heartbeat ends the others.
    """
    if jax.distributed.is_initialized():
        return
    given = {name: os.environ.get(name, "") for name in VARIABLES}
    if not any(given.values()):
        if os.environ.get("TPU_ML_PLATFORM") == "JAX":  # Set by JAX where it finds TPU chips.
            jax.distributed.initialize()
        return
    try:
        address, total, own = given.values()
        logging.info("Process %s of %s: waiting for the others at %s.", own, total, address)
        jax.distributed.initialize(address, int(total), int(own))
    except (RuntimeError, ValueError, IndexError) as error:
        raise UserError(
            f"The processes of the run could not connect ({str(error).splitlines()[0]}): {given}. "
            "Set all three in every process, the first to HOST:PORT, or none for a single process."
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
    """
    flat = {"version of the code": _hash_code()} | {
        path: json.dumps(value, default=str)
        for path, value in flatten_section(settings).items()
        if path.rpartition(".")[2].removeprefix("--") not in _OF_A_HOST
    }
    every = list(map(json.loads, gather("compare the settings", json.dumps(flat))))
    by_process = {key: [each.get(key, "missing") for each in every] for key in set().union(*every)}
    if different := sorted(key for key, values in by_process.items() if len(set(values)) > 1):
        shown = (f"{key} is {', '.join(by_process[key])}" for key in different[:10])
        raise UserError(
            "All processes of a run need the same command and code, but by process, "
            f"{'; '.join(shown)}."
        )


def gather(what: str, own: str) -> list[str]:
    """Returns one string per process, ordered by index; every process must call it.

    Args:
      what: the step that all processes take, as error messages name it.
      own: the string of this process.
    """
    if count() == 1:
        return [own]
    _CALLS[what] += 1  # All processes make their calls in the same order.
    key = f"gather/{what}/{_CALLS[what]}"
    _set(f"{key}/{index()}", own)
    return [_wait(f"{key}/{each}", each, what) for each in range(count())]


def agree_to_stop() -> bool:
    """Returns whether a process has received SIGTERM, and all processes stop at this call.

    Every process calls it equally often, in the same order. JAX's preemption service finds the
    call that all have yet to make, so a call only compares two numbers. The answer stays true.
    """
    if not _STOPPED.is_set() and multihost_utils.reached_preemption_sync_point(next(_STOP_CALLS)):
        _STOPPED.set()
    return _STOPPED.is_set()


def first_does(what: str, function: Callable[[], object]) -> None:
    """Runs a function in process 0, while the others wait; every process calls it.

    Args:
      what: the work, as error messages name it: "compute the features".
      function: called in process 0 only.
    """
    if index() == 0:
        function()
    gather(what, "done")


def _end_with_a_peer(error: BaseException) -> NoReturn:
    """Ends this process at once: JAX's shutdown would wait for the dead one, and then abort."""
    print(
        f"\nError: another process of the run is gone ({str(error).strip().splitlines()[0]}). "
        "Restart the same command in all processes to resume.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(TRY_AGAIN)


def _set(key: str, value: str) -> None:
    distributed.global_state.client.key_value_set(f"xmodal/{key}", value)


def _wait(key: str, peer: int, what: str) -> str:
    """Returns the value that process `peer` sets, or the reason why it never will."""
    client = distributed.global_state.client
    while True:
        try:
            return client.blocking_key_value_get(f"xmodal/{key}", 1000)
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                _end_with_a_peer(error)
        failures = dict(client.key_value_dir_get("xmodal/failure"))
        if reason := failures.get(f"xmodal/failure/{peer}"):
            raise UserError(f"Process {peer} ended before it could {what}. {reason}")


def _hash_code() -> str:
    """Returns a hash of the package's source files, and the version of JAX."""
    digest = hashlib.sha256(jax.__version__.encode())
    root = pathlib.Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
