"""Turns the plain data of a config into calls, with errors that say what is known.

Every room may use this file; it depends on none of them.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class UserError(ValueError):
    """Something the user gave is wrong; the binaries print it without a stack trace."""


def check_keys(section: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuses keys that nothing would read.

    Args:
      section: where the keys stand, as a user would write it: `config.optimizer`.
      given: the section.
      known: every key its reader understands.

    Raises:
      UserError: names the unknown keys and lists the known ones.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UserError(f"Unknown key(s) {unknown} in {section}; known: {sorted(known)}.")


def lookup(section: str, name: str, table: Mapping[str, T]) -> T:
    """The row called `name`.

    Raises:
      UserError: names the unknown row, where it was asked for, and lists the known ones.
    """
    if name not in table:
        raise UserError(f"Unknown name {name!r} in {section}; known: {sorted(table)}.")
    return table[name]


def call(section: str, factory: Callable[..., T], options: Mapping[str, Any], **given: Any) -> T:
    """Calls `factory(**options, **given)`.

    Args:
      section: where the options stand in the config.
      factory: a function with keyword arguments.
      options: what the config sets.
      **given: what the config may not set.

    Raises:
      UserError: an option `factory` does not take, or one it needs is missing.
    """
    parameters = inspect.signature(factory).parameters
    known = [name for name in parameters if name not in given]
    check_keys(section, options, known)
    missing = [
        name
        for name in known
        if parameters[name].default is inspect.Parameter.empty and name not in options
    ]
    if missing:
        raise UserError(f"{section} lacks {missing}; known: {sorted(known)}.")
    return factory(**dict(options.items()), **given)
