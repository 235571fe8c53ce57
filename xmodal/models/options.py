"""Turns the plain data of a config into calls, with errors that say what is known."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax.numpy as jnp
from jax.typing import DTypeLike

T = TypeVar("T")

DTYPES: Mapping[str, DTypeLike] = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """The row called `name`; a ValueError that lists the known names if there is none."""
    if name not in table:
        raise ValueError(f"unknown {what} {name!r}; known: {', '.join(table)}")
    return table[name]


def call(factory: Callable[..., T], options: Mapping[str, Any], where: str, **given: Any) -> T:
    """Calls `factory(**options, **given)`; `given` is what the config may not set.

    Raises:
      ValueError: a key of `options` that `factory` does not take, or a required one is missing.
    """
    options = dict(options.items())
    parameters = inspect.signature(factory).parameters
    known = [key for key in parameters if key not in given]
    unknown = [key for key in options if key not in known]
    if unknown:
        raise ValueError(f"unknown keys {unknown} in {where}; known: {', '.join(known)}")
    missing = [
        key
        for key in known
        if parameters[key].default is inspect.Parameter.empty and key not in options
    ]
    if missing:
        raise ValueError(f"{where} needs the keys {missing}; known: {', '.join(known)}")
    return factory(**options, **given)
