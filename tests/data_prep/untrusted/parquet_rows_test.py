"""Texts of Parquet that are not UTF-8 are listed, and lose no other row."""

import pyarrow
import pyarrow.parquet

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.tables import _parquet_rows
from data_prep.reading.fetched_files import read_table


def test_rows_that_are_not_utf8_are_listed(tmp_path):
    texts = pyarrow.array([b"a", b"b\xff", b"c"]).view(pyarrow.utf8())
    table = pyarrow.table({"url": texts, "jpg": [b"1", b"2", b"3"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    first, bad, last = read_table(tmp_path / "a.parquet", "a")
    assert (first.url, first.read(), last.url, last.read()) == ("a", b"1", "c", b"3")
    assert isinstance(bad, LeftOut)
    assert (bad.where, bad.reason) == ("a row 1", "not UTF-8")
    first, bad, last = _parquet_rows(tmp_path / "a.parquet")
    assert (first[1]["url"], bad.reason, last[0]) == ("a", "not UTF-8", "a.parquet row 2")
