"""Where the traffic of a compiled step comes from: parts of the model, kinds of operation."""

import re
from collections import defaultdict
from collections.abc import Mapping

from xmodal.training import collectives
from xmodal.training.program import Operation, Program, count_bytes

_FREE = {
    "after-all", "bitcast", "call", "conditional", "constant", "get-tuple-element",
    "opt-barrier", "parameter", "partition-id", "replica-id", "tuple", "while",
}  # fmt: skip
_PRODUCTS = {"convolution", "dot", "ragged-dot"}
_COPIES = {"copy", "slice", "dynamic-slice", "transpose", "reshape", "dynamic-update-slice"}
_PATH = re.compile(r'op_name="([^"]*)"')
_SCOPES = re.compile(r"[\w.]+")
# Scopes of `DualEncoder.embed` and the training step, and the modules of a tower.
_PARTS, _INNER = {"image", "text", "losses", "update"}, {"encoder", "head", "projection"}

KINDS = ("products", "other", "copies", "collectives")


def count_traffic(program: Program) -> dict[str, dict[str, float]]:
    """Returns bytes read and written, by part of the model and by kind of operation.

    Parts are `image/encoder`, `text/head` and the like, each forward and backward, `losses` and
    `update`. Kinds are those of `KINDS`; `other` are elementwise operations and reductions that
    XLA did not fuse into a product. An operation counts all of its operands and results, also
    where it reads a slice of one; those in a loop as often as it runs.
    """
    runs = program.count_runs()
    totals: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(KINDS, 0.0))
    for name in _computations(program):
        operations = program.computations.get(name, [])
        sizes = {each.name: sum(count_bytes(each.shape)) for each in operations}
        for operation in operations:
            if moved := _moved_bytes(operation, sizes):
                kind = _kind(program, operation)
                totals[_part(operation)][kind] += runs[name] * moved
    order = sorted(totals, key=lambda part: -sum(totals[part].values()))
    return {part: totals[part] for part in order}


def _computations(program: Program) -> list[str]:
    """Names of those whose operations are run one by one: not those of fusions and reductions."""
    found = [program.entry]
    for name in found:  # It grows meanwhile.
        for operation in program.computations.get(name, ()):
            if operation.opcode in ("while", "conditional", "call"):
                found += set(operation.called).difference(found)
    return found


def _moved_bytes(operation: Operation, sizes: Mapping[str, int]) -> int:
    if operation.opcode in _FREE or operation.opcode.endswith("-done"):
        return 0
    operands = sum(sizes.get(name, 0) for name in operation.operands)
    if operation.opcode.endswith("-start"):  # Its result holds the operands, too.
        return 2 * operands
    return operands + sizes[operation.name]


def _kind(program: Program, operation: Operation) -> str:
    opcode = operation.opcode.removesuffix("-start")
    if opcode in collectives.KINDS:
        return "collectives"
    if opcode in _COPIES:
        return "copies"
    inside = (each.opcode for name in operation.called for each in program.computations[name])
    return "products" if _PRODUCTS & {opcode, *inside} else "other"


def _part(operation: Operation) -> str:
    """The part of the model by the scopes in which an operation was traced."""
    path = _PATH.search(operation.text)
    scopes = _SCOPES.findall(path[1] if path else "")
    first = next((each for each in scopes if each in _PARTS), "")
    if first in ("", "update"):
        return first or "not named"
    inner = [each for each in scopes[scopes.index(first) :] if each in _INNER]
    name = "/".join([first, *inner[:1]])
    # `transpose(jvp(...))` is a gradient, a last `transpose` the operation of that name.
    return f"{name} {'backward' if path and 'transpose(' in path[1] else 'forward'}"
