"""Collectives of a compiled program: which ones, how often, how many bytes; and its loops."""

import dataclasses
import functools
import math
import re
from collections import defaultdict
from collections.abc import Iterator

_KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
_BITS = {"pred": 8, "bf16": 16, "tf32": 32, "c64": 64, "c128": 128}
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
# `%name = shape opcode(`; a shape may be a tuple, and has a layout behind it.
_COLLECTIVE = re.compile(rf" = (.*?) ({'|'.join(_KINDS)})(-start)?\(")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|branch_computations)=\{?(%[\w.\-]+(?:, %[\w.\-]+)*)"
)
_BOUND = re.compile(r" = s32\[\]\S* constant\((\d+)\)")
_LOOP = re.compile(r" while\(.*condition=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclasses.dataclass(frozen=True)
class Collectives:
    """All collectives of one kind.

    Attributes:
      count: calls of one run of the program.
      bytes: of their results on one device.
    """

    count: int
    bytes: int


def count_collectives(program: str) -> dict[str, Collectives]:
    """Returns the collectives of a program by kind.

    Those in a loop count as often as it runs, where the compiler knows the number, else once.

    Args:
      program: optimized HLO, `compiled.as_text()`.
    """
    own: dict[str, list[tuple[str, int]]] = defaultdict(list)
    callers: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for computation, line, times in _lines(program):
        if found := _COLLECTIVE.search(line):
            # The first half of an asynchronous pair returns its operands, too; a sum has its own.
            with_operands = bool(found[3]) and found[2] != "all-reduce"
            own[computation].append((found[2], _result_bytes(found[1], with_operands)))
        for called in _CALLED.finditer(line):
            for name in called[1].split(", "):
                callers[name.lstrip("%")].append((computation, times or 1))

    @functools.cache
    def runs(name: str) -> int:
        return sum(times * runs(caller) for caller, times in callers[name]) or 1

    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, calls in own.items():
        times = runs(name)
        for kind, size in calls:
            totals[kind][0] += times
            totals[kind][1] += times * size
    return {kind: Collectives(*totals[kind]) for kind in sorted(totals)}


def loop_lengths(program: str) -> tuple[int, ...]:
    """Returns how often each loop of a program runs, the longest first, where that is known.

    Args:
      program: see `count_collectives`.
    """
    return tuple(sorted((times for _, _, times in _lines(program) if times), reverse=True))


def _lines(program: str) -> Iterator[tuple[str, str, int | None]]:
    """Yields the computation of each line, the line, and of a loop how often it runs."""
    computation, bounds = "", defaultdict[str, list[int]](list)
    for line in program.splitlines():
        if start := _COMPUTATION.match(line):
            computation = start[1]
            continue
        if bound := _BOUND.search(line):
            bounds[computation].append(int(bound[1]))
        times = None
        if trips := _TRIPS.search(line):
            times = int(trips[1])
        elif loop := _LOOP.search(line):
            # TPU compilers do not say it: the condition compares a counter with a constant.
            known = bounds[loop[1]]
            times = known[0] if len(known) == 1 else None
        yield computation, line, times


def _result_bytes(shape: str, with_operands: bool) -> int:
    several = re.match(r"\(\(.*?\), \((.*?)\)", shape)
    if with_operands and several:
        return _result_bytes(several[1], False)
    sizes = [
        math.prod(int(size) for size in dimensions.split(",") if size) * _bits(dtype) // 8
        for dtype, dimensions in _ARRAY.findall(shape)
    ]
    return max(sizes, default=0) if with_operands else sum(sizes)


def _bits(dtype: str) -> int:
    if dtype in _BITS:
        return _BITS[dtype]
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 8
