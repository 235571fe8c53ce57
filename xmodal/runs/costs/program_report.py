"""Figures of compiled programs, as a table to read and as JSON."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

from xmodal.runs.costs.accelerators import Accelerator
from xmodal.runs.costs.cost import Cost
from xmodal.runs.costs.traffic import KINDS

_WIDTH = 30


def format_costs(
    costs: Mapping[str, Cost], capacity: int | None, accelerator: Accelerator | None
) -> str:
    """Returns a table with one column per program.

    Args:
      costs: costs by name of the program.
      capacity: memory of a device in bytes; None if not known.
      accelerator: the device; None if not known.
    """
    rows = [["", *costs]]
    rows.append(["arguments", *(_size(c.argument_bytes) for c in costs.values())])
    rows.append(["temporaries", *(_size(c.temporary_bytes) for c in costs.values())])
    if any(c.resident_bytes for c in costs.values()):
        kept = (_size(c.resident_bytes) if c.resident_bytes else "-" for c in costs.values())
        rows.append(["optimizer's state", *kept])
    rows.append(["peak", *(_peak(c.peak_bytes, capacity) for c in costs.values())])
    rows.append(["FLOPs", *(_scaled(c.flops) for c in costs.values())])
    rows.append(["bytes moved", *(_scaled(c.moved_bytes, "B") for c in costs.values())])
    for kind in sorted({kind for c in costs.values() for kind in c.collectives}):
        rows.append([kind, *(_collectives(c, kind) for c in costs.values())])
    if any(c.loops for c in costs.values()):
        rows.append(["loops, counted once", *(_loops(c) for c in costs.values())])
    rows.append(["estimated time", *(_time(c, accelerator) for c in costs.values())])
    rows.append(["share of peak", *(_share(c, accelerator) for c in costs.values())])
    return "\n".join(
        f"  {name:<20}" + "".join(f"{cell:>{_WIDTH}}" for cell in cells) for name, *cells in rows
    )


def format_traffic(traffic: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a table with one line per part; the last sums up parts with less than 1 %."""
    whole = sum(sum(kinds.values()) for kinds in traffic.values())
    large = {part: kinds for part, kinds in traffic.items() if sum(kinds.values()) >= whole / 100}
    rest = [kinds for part, kinds in traffic.items() if part not in large]
    if rest:
        large["all others"] = {kind: sum(kinds[kind] for kinds in rest) for kind in KINDS}
    unit, size = ("GB", 1e9) if whole >= 1e9 else ("MB", 1e6)
    title = f"{unit} moved by"
    lines = [f"  {title:<26}" + "".join(f"{kind:>13}" for kind in KINDS) + f"{'share':>8}"]
    for part, kinds in large.items():
        cells = "".join(f"{kinds[kind] / size:>13,.2f}" for kind in KINDS)
        lines.append(f"  {part:<26}{cells}{sum(kinds.values()) / max(whole, 1):>8.0%}")
    return "\n".join(lines)


def to_json(cost: Cost, accelerator: Accelerator | None) -> dict[str, Any]:
    """Returns the figures of a program as plain values."""
    return dataclasses.asdict(cost) | {
        "peak_bytes": cost.peak_bytes,
        "estimated_seconds": cost.estimate_seconds(accelerator),
        "share_of_peak": share_of_peak(cost, accelerator),
    }


def share_of_peak(cost: Cost, accelerator: Accelerator | None) -> float | None:
    """Returns FLOPs per estimated second over the published peak; None if one is not known."""
    seconds = cost.estimate_seconds(accelerator)
    if accelerator is None or not seconds or not cost.flops:
        return None
    return cost.flops / seconds / (accelerator.tflops * 1e12)


def _size(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 / 10 else f"{count / 2**20:,.1f} MiB"


def _peak(count: int, capacity: int | None) -> str:
    if capacity is None:
        return _size(count)
    return f"{_size(count)} of {_size(capacity)} ({count / capacity:.0%})"


def _scaled(value: float, unit: str = "") -> str:
    if not value:
        return "unknown"
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            number = value / size
            return f"{number:{'.3g' if number < 999.5 else ',.0f'}} {prefix}{unit}"
    return f"{value:.3g} {unit}".strip()


def _collectives(cost: Cost, kind: str) -> str:
    if kind not in cost.collectives:
        return "-"
    found = cost.collectives[kind]
    return f"{found.count} x, {_scaled(found.bytes, 'B')}"


def _time(cost: Cost, accelerator: Accelerator | None) -> str:
    seconds = cost.estimate_seconds(accelerator)
    if seconds is None:
        return "unknown"
    is_whole = cost.compiler_seconds and not cost.loops
    return f"{seconds:.3g} s" if is_whole else f"at least {seconds:.3g} s"


def _loops(cost: Cost) -> str:
    """Returns "2 x 12, 4" for two loops of 12 runs and one of 4."""
    counts = Counter(cost.loops)
    words = [f"{n} x {runs}" if n > 1 else str(runs) for runs, n in counts.items()]
    return ", ".join(words) or "-"


def _share(cost: Cost, accelerator: Accelerator | None) -> str:
    share = share_of_peak(cost, accelerator)
    return "unknown" if share is None else f"{share:.0%}"
