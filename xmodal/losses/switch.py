"""Chooses among functions by a name, or by a name that depends on the step."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar

import jax

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several names, chosen by a number that is known only inside `jit`.

    Attributes:
      values: names.
      index: int32 scalar, the position of the chosen name in `values`.
    """

    values: tuple[str, ...]
    index: jax.Array


def switch(name: str | Choice, functions: Mapping[str, Callable[[], T]]) -> T:
    """Returns the result of the function called `name`; only that function runs.

    Args:
      name: a key of `functions`, or a `Choice` of keys.
      functions: functions without arguments; those of a `Choice` return the same shapes.
    """
    if isinstance(name, str):
        return functions[name]()
    return jax.lax.switch(name.index, [functions[each] for each in name.values])
