"""Records in parts, such as shards: one process reads them in turn, Beam workers in parallel."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from data_prep.building.record_counts import LeftOut, Record

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class PartedRecords:
    """The records of a split in parts. Iterating yields all of them in order.

    Attributes:
      count: number of parts.
      read: yields the records of a part by its number, always the same ones; can be pickled.
      first: left-out entries that come before the parts.
      last: left-out entries that are known only after the parts.
    """

    count: int
    read: Callable[[int], Iterator[Record | LeftOut]]
    first: Iterable[LeftOut] = ()
    last: Iterable[LeftOut] = ()

    def __iter__(self) -> Iterator[Record | LeftOut]:
        parts = itertools.chain.from_iterable(map(self.read, range(self.count)))
        return itertools.chain(self.first, parts, self.last)


class Workers(Protocol):
    """The processes of a build."""

    def map(self, function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """Yields the value of a function for every part, in order.

        Args:
          function: function of a part; it and its values can be pickled.
          parts: its arguments.
        """

    def keep(self, values: Iterable[Result]) -> Sequence[Result]:
        """Returns the values in a form that functions for `map` or `PartedRecords` can hold."""


class OneProcess(Workers):
    """Only this process."""

    def map(self, function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """See `Workers`."""
        return map(function, parts)

    def keep(self, values: Iterable[Any]) -> Sequence[Any]:
        """See `Workers`."""
        return list(values)
