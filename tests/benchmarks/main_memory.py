"""Counts the main memory (HBM) that a compiled program (optimized HLO) reads and writes."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
_CALLED = re.compile(r"(?:body|condition|calls|to_apply|branch_computations)=\{?([^},]*)")
_BITS = {"pred": 8, "bf16": 16, "tf32": 32, "c64": 64, "c128": 128}
_CALLS = ("while", "conditional", "call")
_FREE = {
    "after-all", "bitcast", "call", "conditional", "constant", "get-tuple-element",
    "opt-barrier", "parameter", "partition-id", "replica-id", "tuple", "while",
}  # fmt: skip
# `((source), result, context)`, the shape of an asynchronous slice.
_SLICE = re.compile(r"\(\((.*?)\), (\w+\[[^\]]*\](?:\{[^}]*\})?)")


class Operation(NamedTuple):
    """A line of a program.

    Attributes:
      name: name within its computation.
      shape: shape of its result, as written.
      opcode: such as `fusion`, `while`, `all-reduce-start`.
      text: its operands and attributes.
    """

    name: str
    shape: str
    opcode: str
    text: str


def count_moved(text: str, counted: float) -> float:
    """Returns the bytes of main memory that one call moves, a loop's body counted once.

    This is what XLA `counted`, unless a TPU keeps arrays on the chip: XLA counts those as well, as
    often as a fusion uses them, and omits the asynchronous copies that move them there and back.
    In that case, it is the sum of operands and results in main memory.
    """
    everywhere, in_memory = (sum_operands(text, on_chip=each) for each in (True, False))
    return in_memory if everywhere > in_memory else counted


def sum_operands(text: str, *, on_chip: bool) -> int:
    """Returns the bytes of operands and results of all operations, with arrays on the chip or not.

    Args:
      text: what `compiled.as_text()` returns.
      on_chip: whether arrays count that a TPU keeps on the chip.
    """
    computations, run = _read_program(text)
    for name in run:  # Computations whose operations run one by one; the list grows.
        for operation in computations.get(name, ()):
            if operation.opcode in _CALLS:
                called = dict.fromkeys(
                    each for part in _CALLED.findall(operation.text) for each in _NAME.findall(part)
                )
                run += [each for each in called if each not in run]
    return sum(_moved(computations.get(name, ()), on_chip) for name in run)


def _read_program(text: str) -> tuple[Mapping[str, Sequence[Operation]], list[str]]:
    """Returns the operations of every computation, and the name of the one that is run."""
    computations: dict[str, list[Operation]] = {}
    entry = ""
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            current = computations.setdefault(start[2], [])
            entry = start[2] if start[1] else entry
        elif found := _OPERATION.match(line):
            current.append(Operation(*found.groups()))
    return computations, [entry]


def _moved(operations: Sequence[Operation], on_chip: bool) -> int:
    # Handles of asynchronous pairs are scalars of this type (or of s32, in the result of a slice).
    shapes = {each.name: each.shape.replace("u32[]", "") for each in operations}
    sizes = {name: _bytes(shape, on_chip) for name, shape in shapes.items()}
    total = 0
    for name, shape, opcode, text in operations:
        if opcode == "slice-start":
            # Each of its two ends that is in main memory.
            if ends := _SLICE.match(shape):
                total += sum(bool(_bytes(x, False)) for x in ends.groups()) * _bytes(ends[2], True)
        elif opcode not in _FREE and not opcode.endswith("-done"):
            total += sizes[name]
            # For other pairs, the result of the first half also holds the operands.
            if not opcode.endswith("-start") or opcode == "all-reduce-start":
                operands = _NAME.findall(text.partition(")")[0])
                total += sum(sizes.get(each, 0) for each in operands)
    return total


def _bytes(shape: str, on_chip: bool) -> int:
    """Bytes of the arrays of a shape, including the padding of their tiles."""
    total = 0
    for dtype, dimensions, order, tile, space in _ARRAY.findall(shape):
        if on_chip or space not in _ON_CHIP:
            sizes, order, tile = ([int(x) for x in each.split(",") if x]
                                  for each in (dimensions, order, tile))  # fmt: skip
            # TPUs keep tiles of the minor dimensions, which are named first.
            for dimension, multiple in zip(order, reversed(tile), strict=False):
                sizes[dimension] = -(-sizes[dimension] // multiple) * multiple
            digits = re.search(r"\d+", dtype)
            bits = _BITS.get(dtype) or (int(digits[0]) if digits else 8)
            total += math.prod(sizes) * bits // 8
    return total
