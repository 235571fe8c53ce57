"""Counts the collectives of a compiled program and their bytes."""

import dataclasses
import re
from collections.abc import Iterator

from tests.benchmarks.program import Operation, Program, count_bytes

KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)


_CHANNEL = re.compile(r"channel_id=(\d+)")


@dataclasses.dataclass(frozen=True)
class Collectives:
    """All collectives of one kind.

    Attributes:
      count: calls in one run of the program.
      bytes: size of their results on one device.
    """

    count: int
    bytes: int


def count_collectives(program: Program) -> dict[str, Collectives]:
    """Returns the collectives of a program by kind.

    A collective in a loop counts once per iteration if the compiler knows their number, else once.
    """
    runs = program.count_runs()
    found = {kind: Collectives(0, 0) for kind in KINDS}
    for name, operation in _started(program):
        kind = operation.opcode.removesuffix("-start")
        before = found[kind]
        found[kind] = Collectives(
            before.count + runs[name], before.bytes + runs[name] * _result_bytes(operation)
        )
    return {kind: each for kind, each in found.items() if each.count}


def _started(program: Program) -> Iterator[tuple[str, Operation]]:
    """Yields every collective once, with the name of its computation."""
    fused = program.fused_computations()
    in_fusions: set[str] = set()
    for name, operations in program.computations.items():
        for operation in operations:
            if operation.opcode.removesuffix("-start") not in KINDS:
                continue
            # A TPU continues a collective, on its channel, in each fusion that runs meanwhile.
            if name in fused and (channel := _CHANNEL.search(operation.text)):
                if channel[1] in in_fusions:
                    continue
                in_fusions.add(channel[1])
            yield name, operation


def _result_bytes(operation: Operation) -> int:
    # The first half of an asynchronous pair also returns its operands; a sum has its own.
    if not operation.opcode.endswith("-start") or operation.opcode == "all-reduce-start":
        return sum(count_bytes(operation.shape))
    if several := re.match(r"\(\(.*?\), \((.*?)\)", operation.shape):
        return sum(count_bytes(several[1]))
    return max(count_bytes(operation.shape), default=0)
