"""Times functions that take turns, and prints the figures."""

import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from xmodal.apps.reproduction.reproduced import describe_processor


def compare(
    figure: str,
    calls: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    count: int = 1,
    **facts: Any,
) -> None:
    """Prints a line of JSON: medians of wall and CPU seconds per item, and ratios to the first.

    Args:
      figure: name of the figure.
      calls: functions by name; the first is ours, and each is called once before it is timed.
      rounds: timed calls of each, in turn.
      count: items of a call.
      **facts: printed as they are.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            started = time.perf_counter(), time.process_time()
            call()
            if number:
                ended = time.perf_counter(), time.process_time()
                times[name].append((ended[0] - started[0], ended[1] - started[1]))
    line: dict[str, Any] = {"figure": figure, **facts}
    ours = next(iter(calls))
    for at, unit in enumerate(("seconds", "cpu_seconds")):
        found = {name: statistics.median(each[at] for each in times[name]) for name in calls}
        line |= {f"{name}_{unit}": float(f"{s / count:.4g}") for name, s in found.items()}
        line |= {f"{unit}_of_{n}": round(found[ours] / s, 3) for n, s in found.items() if n != ours}
    print(json.dumps(line | {"processor": describe_processor()}), flush=True)
