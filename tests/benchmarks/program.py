"""Parses a compiled program (optimized HLO): operations, their sizes, how often they run."""

import dataclasses
import functools
import math
import re
from collections import defaultdict

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
# `%name = shape opcode(operands), attributes`; a shape may be a tuple, followed by its layout.
_OPERATION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_NAME = re.compile(r"%([\w.\-]+)")
# Data type, dimensions, and in braces their order, the tile and the memory space.
_ARRAY = re.compile(
    r"\b([a-z]\w*)\[([\d,]*)\](?:\{([\d,]*)(?::T\(([\d,]+)\)(?:[^}]*?S\((\d+)\))?)?)?"
)
# Memory spaces of TPUs on the chip itself (VMEM, CMEM, SMEM); 0 is HBM, 5 the host's memory.
_ON_CHIP = {"1", "2", "3", "4"}
_CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|branch_computations)=\{?(%[\w.\-]+(?:, %[\w.\-]+)*)"
)
_BOUND = re.compile(r"^(\d+)\)")
_CONDITION = re.compile(r"condition=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_BITS = {"pred": 8, "bf16": 16, "tf32": 32, "c64": 64, "c128": 128}


@dataclasses.dataclass(frozen=True)
class Operation:
    """A line of a program.

    Attributes:
      name: name within its computation.
      shape: shape of its result, as written.
      opcode: such as `fusion`, `while`, `all-reduce-start`.
      operands: names of its operands.
      text: everything after the opcode.
    """

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    text: str

    @property
    def called(self) -> list[str]:
        """Names of the computations that it calls."""
        found = (each[1].split(", ") for each in _CALLED.finditer(self.text))
        return [name.lstrip("%") for names in found for name in names]


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled program.

    Attributes:
      computations: operations by the name of their computation.
      entry: the computation that is run.
    """

    computations: dict[str, list[Operation]]
    entry: str

    def loop_lengths(self) -> tuple[int, ...]:
        """Returns how often each loop runs, if known, the longest first."""
        loops = (each for name in self.computations for each in self.computations[name])
        found = (self.trips(each) for each in loops if each.opcode == "while")
        return tuple(sorted((times for times in found if times), reverse=True))

    def trips(self, loop: Operation) -> int | None:
        """Returns how often a loop runs; None if the compiler does not say."""
        if trips := _TRIPS.search(loop.text):
            return int(trips[1])
        # TPU compilers do not say: the condition compares a counter with a constant.
        condition = _CONDITION.search(loop.text)
        bounds = [
            int(bound[1])
            for operation in self.computations.get(condition[1] if condition else "", ())
            if operation.opcode == "constant"
            and operation.shape.startswith("s32[]")
            and (bound := _BOUND.match(operation.text))
        ]
        return bounds[0] if len(bounds) == 1 else None

    def fused_computations(self) -> set[str]:
        """Returns the names of computations that form the body of one operation."""
        operations = (each for name in self.computations for each in self.computations[name])
        fusions = (each for each in operations if each.opcode == "fusion")
        return {name for fusion in fusions for name in fusion.called}

    def count_runs(self) -> dict[str, int]:
        """Returns how often each computation runs; a loop of unknown length counts once."""
        callers: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for name, operations in self.computations.items():
            for operation in operations:
                times = (self.trips(operation) or 1) if operation.opcode == "while" else 1
                for called in operation.called:
                    callers[called].append((name, times))

        @functools.cache
        def runs(name: str) -> int:
            return sum(times * runs(caller) for caller, times in callers[name]) or 1

        return {name: runs(name) for name in self.computations}


def read_program(text: str) -> Program:
    """Returns the program that `compiled.as_text()` describes."""
    computations: dict[str, list[Operation]] = {}
    entry, current = "", []
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            current = computations.setdefault(start[2], [])
            entry = start[2] if start[1] else entry
        elif found := _OPERATION.match(line):
            name, shape, opcode, rest = found.groups()
            operands = tuple(_NAME.findall(rest.partition(")")[0]))
            current.append(Operation(name, shape, opcode, operands, rest))
    return Program(computations, entry)


def count_bytes(shape: str, *, on_chip: bool = True) -> list[int]:
    """Returns the bytes of every array of a shape, including the padding of its tiles.

    Arrays that a TPU keeps on the chip itself are left out unless `on_chip`.
    """
    return [
        _count_numbers(dimensions, order, tile) * _bits(dtype) // 8
        for dtype, dimensions, order, tile, space in _ARRAY.findall(shape)
        if on_chip or space not in _ON_CHIP
    ]


def _count_numbers(dimensions: str, order: str, tile: str) -> int:
    sizes = _integers(dimensions)
    # TPUs keep tiles of the minor dimensions, which are named first.
    for dimension, multiple in zip(_integers(order), reversed(_integers(tile)), strict=False):
        sizes[dimension] = -(-sizes[dimension] // multiple) * multiple
    return math.prod(sizes)


def _integers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def _bits(dtype: str) -> int:
    if dtype in _BITS:
        return _BITS[dtype]
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 8
