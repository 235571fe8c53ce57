"""Initial states that are drawn array by array instead of by one large program.

The program that draws all arrays of a model compiles for as long as a training step. Drawn one by
one, arrays of equal shapes share small programs, which are compiled once for many tests.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from xmodal.train.run import Run


def create_state(init: Callable[..., Any], shapes: Any, *arguments: Any) -> Any:
    """Like `tree.create_state`, except for rounding."""
    closed, out = jax.make_jaxpr(init, return_shape=True)(*arguments)
    found = _evaluate(closed, jax.tree.leaves(arguments), range(len(closed.jaxpr.outvars)))
    leaves = [found[index] for index in range(len(found))]
    state = jax.tree.unflatten(jax.tree.structure(out), leaves)

    def place(array: Any, like: Any) -> Any:
        # A copy, since a training step may reuse the memory of each array.
        return jax.device_put(array, like.sharding, may_alias=False)

    return jax.tree.map(place, state, shapes)


def _evaluate(closed: ClosedJaxpr, arguments: Sequence[Any], wanted: Sequence[int]) -> dict:
    """The outputs at the positions `wanted`, without operations that they do not need."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values |= dict(zip(jaxpr.invars, arguments, strict=True))
    needed = {each for each in map(jaxpr.outvars.__getitem__, wanted) if not _is_literal(each)}
    chosen = []
    for eqn in reversed(jaxpr.eqns):
        if used := [index for index, out in enumerate(eqn.outvars) if out in needed]:
            chosen.append((eqn, used))
            needed |= {each for each in eqn.invars if not _is_literal(each)}

    def read(each: Any) -> Any:
        return each.val if _is_literal(each) else values[each]

    for eqn, used in reversed(chosen):
        inner = eqn.params.get("jaxpr")
        name = eqn.params.get("name", "")
        # Functions that draw, such as `_normal`, are compiled once for all arrays of a shape.
        draws = name.startswith("_") and name != Run._init_params.__name__
        if eqn.primitive.name in ("jit", "pjit") and not draws:
            found = _evaluate(inner, [read(each) for each in eqn.invars], used)
        else:
            found = _run(eqn, used, values)
        values |= {eqn.outvars[index]: found[index] for index in used}
    return {index: read(jaxpr.outvars[index]) for index in wanted}


def _run(eqn: Any, used: Sequence[int], values: dict) -> dict:
    """The outputs of one operation at the positions `used`."""
    inputs = list(dict.fromkeys(each for each in eqn.invars if not _is_literal(each)))
    outputs = [eqn.outvars[index] for index in used]
    run = jaxpr_as_fun(ClosedJaxpr(Jaxpr((), inputs, outputs, [eqn]), ()))
    # Compiled as a whole, a loop over layers computes only the outputs that are used.
    run = jax.jit(run) if eqn.primitive.name == "scan" else run
    return dict(zip(used, run(*(values[each] for each in inputs)), strict=True))


def _is_literal(each: Any) -> bool:
    return isinstance(each, Literal)
