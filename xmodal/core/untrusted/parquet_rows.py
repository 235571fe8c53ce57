"""Rows of Parquet tables from elsewhere: texts need not be UTF-8, nor days in the calendar."""

from collections.abc import Iterator
from typing import Any, NamedTuple

_ERRORS = (ValueError, OverflowError)  # `UnicodeDecodeError` is a ValueError.


class UnreadableRow(NamedTuple):
    """A row without values: "not UTF-8" or "value that cannot be read", and details."""

    reason: str
    detail: str


def parquet_rows(batch: Any) -> Iterator[dict[str, Any] | UnreadableRow]:
    """Yields the rows of a `pyarrow.RecordBatch`, or why one has no values."""
    try:
        rows = batch.to_pylist()
    except _ERRORS:
        rows = None
    if rows is not None:
        yield from rows
        return
    for number in range(batch.num_rows):
        try:
            yield batch.slice(number, 1).to_pylist()[0]
        except UnicodeDecodeError as error:
            yield UnreadableRow("not UTF-8", str(error))
        except _ERRORS as error:
            yield UnreadableRow("value that cannot be read", str(error))
