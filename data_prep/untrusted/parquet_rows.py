"""Rows of Parquet tables from elsewhere, whose texts need not be UTF-8."""

from collections.abc import Iterator
from typing import Any


def parquet_rows(batch: Any) -> Iterator[dict[str, Any] | UnicodeDecodeError]:
    """Yields the rows of a `pyarrow.RecordBatch`, or the error of a text that is not UTF-8."""
    try:
        rows = batch.to_pylist()
    except UnicodeDecodeError:
        rows = None
    if rows is not None:
        yield from rows
        return
    for number in range(batch.num_rows):
        try:
            yield batch.slice(number, 1).to_pylist()[0]
        except UnicodeDecodeError as error:
            yield error
