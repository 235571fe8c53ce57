"""Counts of sampled pairs, and the counts that the scheme determines."""

import dataclasses
from collections.abc import Iterable

from xmodal.core.text_table import align_columns


@dataclasses.dataclass(frozen=True)
class Fact:
    """A count.

    Attributes:
      method: sampling method.
      quantity: name of the counted things.
      found: the count, as a string.
      expected: the count by the scheme; "" if it is not determined.
      holds: whether `found` is as expected; None if that is not determined.
    """

    method: str
    quantity: str
    found: str
    expected: str = ""
    holds: bool | None = None


def count(method: str, quantity: str, found: int, expected: int | None = None) -> Fact:
    """A number, which must equal `expected` if given."""
    if expected is None:
        return Fact(method, quantity, f"{found:,}")
    return Fact(method, quantity, f"{found:,}", f"{expected:,}", bool(found == expected))


def at_least(method: str, quantity: str, found: int, least: int) -> Fact:
    """A number that must not be smaller than `least`."""
    return Fact(method, quantity, f"{found:,}", f"at least {least:,}", bool(found >= least))


def format_facts(facts: Iterable[Fact]) -> str:
    """A table of the facts; those that do not hold are marked."""
    rows = [("sampling method", "quantity", "found", "expected", "")]
    marks = {True: "ok", False: "DIFFERS", None: ""}
    rows += [(f.method, f.quantity, f.found, f.expected, marks[f.holds]) for f in facts]
    return align_columns(rows, right=(2, 3))
