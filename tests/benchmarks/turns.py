"""Times functions that take turns, and prints the figures."""

import concurrent.futures
import json
import multiprocessing
import statistics
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from xmodal.apps.reproduction.reproduced import describe_processor


def compare(
    figure: str,
    calls: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    count: int = 1,
    peak_seconds: float | None = None,
    **facts: Any,
) -> None:
    """Prints a line of JSON: medians of wall and CPU seconds per item, and ratios to the first.

    Args:
      figure: name of the figure.
      calls: functions by name; the first is ours, and each is called once before it is timed. One
        `in_own_process` returns its CPU seconds.
      rounds: timed calls of each, in turn.
      count: items of a call.
      peak_seconds: seconds that the operations of an item take at the peak of the device; its part
        of each median is printed as the utilization.
      **facts: printed as they are.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            started = time.perf_counter(), time.process_time()
            elsewhere = call()
            ended = time.perf_counter(), time.process_time()
            if number:
                cpu = elsewhere if isinstance(elsewhere, float) else ended[1] - started[1]
                times[name].append((ended[0] - started[0], cpu))
    line: dict[str, Any] = {"figure": figure, **facts}
    ours = next(iter(calls))
    for at, unit in enumerate(("seconds", "cpu_seconds")):
        found = {name: statistics.median(each[at] for each in times[name]) for name in calls}
        line |= {f"{name}_{unit}": float(f"{s / count:.4g}") for name, s in found.items()}
        line |= {f"{unit}_of_{n}": round(found[ours] / s, 3) for n, s in found.items() if n != ours}
        if unit == "seconds" and peak_seconds is not None:
            shares = {name: count * peak_seconds / s for name, s in found.items()}
            line |= {f"{name}_utilization": round(share, 3) for name, share in shares.items()}
    print(json.dumps(line | {"processor": describe_processor()}), flush=True)


_STEPS: list[Callable[[], Any]] = []


def in_own_process(make: Callable[..., Callable[[], Any]], *args: Any) -> Callable[[], float]:
    """Returns a function that calls `make(*args)()` in another process and returns its CPU seconds.

    Our settings of this process, such as those of its allocator, do not change the rival's speed.
    A first call starts at once, so that the rival compiles while we do. The process, with its
    memory on a device, has ended once the last reference to the function is gone.
    """
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(1, context, _keep, (make, *args))
    pool.submit(_call)

    def call() -> float:
        return pool.submit(_call).result()

    # Collected without this, the pool may still be closing its pipe when Python exits.
    weakref.finalize(call, pool.shutdown)
    return call


def _keep(make: Callable[..., Callable[[], Any]], *args: Any) -> None:
    _STEPS.append(make(*args))


def _call() -> float:
    started = time.process_time()
    _STEPS[0]()
    return time.process_time() - started
