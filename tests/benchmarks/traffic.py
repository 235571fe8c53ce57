"""Memory traffic of a compiled step, by part of the model and kind of operation."""

import re
from collections import defaultdict
from collections.abc import Sequence

from tests.benchmarks import collectives
from tests.benchmarks.program import Operation, Program, count_bytes

_FREE = {
    "after-all", "bitcast", "call", "conditional", "constant", "get-tuple-element",
    "opt-barrier", "parameter", "partition-id", "replica-id", "tuple", "while",
}  # fmt: skip
_PRODUCTS = {"convolution", "dot", "ragged-dot"}
_COPIES = {"copy", "slice", "dynamic-slice", "transpose", "reshape", "dynamic-update-slice"}
# `((source), result, context)`, the shape of an asynchronous slice.
_SLICE = re.compile(r"\(\((.*?)\), (\w+\[[^\]]*\](?:\{[^}]*\})?)")
_PATH = re.compile(r'op_name="([^"]*)"')
_SCOPES = re.compile(r"[\w.]+")
# Scopes in `DualEncoder.embed` and the training step, and the modules of a tower.
_PARTS, _INNER = {"image", "text", "losses", "update"}, {"encoder", "head", "projection"}

KINDS = ("products", "other", "copies", "collectives")


def count_traffic(program: Program) -> dict[str, dict[str, float]]:
    """Returns bytes of main memory (HBM) moved, by part of the model and by kind of operation.

    Run are `image/encoder`, `text/head` and so on, each forward and backward, `losses` and
    `update`. Kinds are those of `KINDS`; `other` covers elementwise operations and reductions that
    XLA did not fuse into a product. An operation counts all of its operands and results, even if it
    reads only a slice of one, and once per iteration of a loop.
    """
    runs = program.count_runs()
    totals: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(KINDS, 0.0))
    for name in _computations(program):
        for operation, moved in _moved_bytes(program.computations.get(name, [])):
            totals[_part(operation)][_kind(program, operation)] += runs[name] * moved
    order = sorted(totals, key=lambda part: -sum(totals[part].values()))
    return {part: totals[part] for part in order}


def count_moved(program: Program, counted: float) -> float:
    """Returns the bytes of main memory (HBM) that one call moves, a loop's body counted once.

    This is what XLA `counted`, unless a TPU keeps arrays on the chip: XLA counts those as well, as
    often as a fusion uses them, and omits the asynchronous copies that move them there and back.
    In that case, it is the sum of operands and results in main memory, as in `count_traffic`.
    """
    keeps, moved = False, 0
    for name in _computations(program):
        operations = program.computations.get(name, [])
        everywhere = sum(size for _, size in _moved_bytes(operations, on_chip=True))
        in_memory = sum(size for _, size in _moved_bytes(operations))
        keeps |= everywhere > in_memory
        moved += in_memory
    return moved if keeps else counted


def _computations(program: Program) -> list[str]:
    """Names of computations whose operations run one by one, without fusions and reductions."""
    found = [program.entry]
    for name in found:  # The list grows during the loop.
        for operation in program.computations.get(name, ()):
            if operation.opcode in ("while", "conditional", "call"):
                found += [each for each in dict.fromkeys(operation.called) if each not in found]
    return found


def _moved_bytes(
    operations: Sequence[Operation], *, on_chip: bool = False
) -> list[tuple[Operation, int]]:
    """Returns the bytes of operands and results of each operation that does something."""
    # Handles of asynchronous pairs are scalars of this type (or of s32, in the result of a slice).
    shapes = {each.name: each.shape.replace("u32[]", "") for each in operations}
    sizes = {name: sum(count_bytes(shape, on_chip=on_chip)) for name, shape in shapes.items()}
    found = []
    for operation in operations:
        opcode = operation.opcode
        if opcode in _FREE or opcode.endswith("-done"):
            continue
        moved = sizes[operation.name]
        if opcode == "slice-start":
            moved = _slice_bytes(operation)
        # For other pairs, the result of the first half also holds the operands.
        elif not opcode.endswith("-start") or opcode == "all-reduce-start":
            moved += sum(sizes.get(name, 0) for name in operation.operands)
        found.append((operation, moved))
    return found


def _slice_bytes(operation: Operation) -> int:
    """Bytes of a slice, for each of its two ends that is in main memory."""
    ends = _SLICE.match(operation.shape)
    if ends is None:
        return 0
    in_memory = sum(bool(count_bytes(end, on_chip=False)) for end in ends.groups())
    return in_memory * sum(count_bytes(ends[2]))


def _kind(program: Program, operation: Operation) -> str:
    opcode = operation.opcode.removesuffix("-start")
    if opcode in collectives.KINDS:
        return "collectives"
    if opcode in _COPIES:
        return "copies"
    inside = (each.opcode for name in operation.called for each in program.computations[name])
    return "products" if _PRODUCTS & {opcode, *inside} else "other"


def _part(operation: Operation) -> str:
    """The part of the model, from the scopes in which an operation was traced."""
    path = _PATH.search(operation.text)
    scopes = _SCOPES.findall(path[1] if path else "")
    first = next((each for each in scopes if each in _PARTS), "")
    if first in ("", "update"):
        return first or "not named"
    inner = [each for each in scopes[scopes.index(first) :] if each in _INNER]
    name = "/".join([first, *inner[:1]])
    # `transpose(jvp(...))` is a gradient, a last `transpose` the operation of that name.
    return f"{name} {'backward' if path and 'transpose(' in path[1] else 'forward'}"
