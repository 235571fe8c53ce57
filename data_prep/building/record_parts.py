"""Records in parts, such as shards, which Apache Beam reads and checks in parallel."""

import dataclasses
import functools
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from etils import epath

from data_prep.building.record_check import Entry, RecordCheck
from data_prep.building.record_counts import LeftOut, Record


@dataclasses.dataclass(frozen=True)
class PartedRecords:
    """The records of a split in parts.

    Attributes:
      parts: the parts, which can be pickled.
      read: yields the records of a part, always the same ones; can be pickled.
      first: left-out entries that come before the parts.
      last: left-out entries that are known only after the parts.
    """

    parts: Sequence[Any]
    read: Callable[[Any], Iterator[Record | LeftOut]]
    first: Iterable[LeftOut] = ()
    last: Iterable[LeftOut] = ()

    def transform(self, check: RecordCheck, folder: epath.Path) -> Any:
        """Returns a `beam.PTransform` to the usable records, which accounts for all in a folder."""
        import apache_beam as beam

        work = functools.partial(_checked_records, self.read, check, folder)
        return beam.Create(list(enumerate(self.parts))) | beam.FlatMap(work)

    def entries(self, folder: epath.Path) -> Iterator[Entry]:
        """Yields the accounts of all records after the transform has run."""
        parts = (pickle.loads((folder / str(n)).read_bytes()) for n in range(len(self.parts)))
        return itertools.chain(
            map(Entry, self.first), itertools.chain.from_iterable(parts), map(Entry, self.last)
        )


def _checked_records(
    read: Callable[[Any], Iterator[Any]],
    check: RecordCheck,
    folder: epath.Path,
    numbered: tuple[int, Any],
) -> Iterator[Record]:
    """Yields the usable records of a part; a part that is repeated writes the same account."""
    entries = []
    number, part = numbered
    for record in read(part):
        usable, entry = check(record)
        entries.append(entry)
        if usable is not None:
            yield usable
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(number)).write_bytes(pickle.dumps(entries))
