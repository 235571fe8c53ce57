"""Checks a section of a config against the keys its one reader knows."""

from collections.abc import Collection, Mapping
from typing import Any


def check_keys(section: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuses keys that nothing would read.

    Args:
      section: where the keys stand, as a user would write it: `config.optimizer`.
      given: the section.
      known: every key the reader understands.

    Raises:
      ValueError: names the unknown keys and lists the known ones.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"Unknown key(s) {unknown} in {section}; known: {sorted(known)}.")


def lookup(section: str, name: str, table: Mapping[str, Any]) -> Any:
    """Returns `table[name]`.

    Raises:
      ValueError: names the unknown entry, where it stands, and lists the known ones.
    """
    if name not in table:
        raise ValueError(f"Unknown name {name!r} in {section}; known: {sorted(table)}.")
    return table[name]
