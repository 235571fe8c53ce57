"""Values of Parquet that cannot be read are listed, and lose no other row."""

import PIL.Image
import pyarrow
import pyarrow.parquet
import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.tables import _parquet_rows
from data_prep.reading.fetched_files import read_table
from tests.data_prep.captioned_images.own_folders import picture, read_layout
from xmodal.core.errors import BadImageError


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


def test_pictures_of_rows_that_are_not_utf8_are_listed(tmp_path):
    texts = pyarrow.array([b"a dog", b"b\xff", b"a cat"]).view(pyarrow.utf8())
    table = pyarrow.table({"image": [picture(n) for n in range(3)], "caption": texts})
    (tmp_path / "data").mkdir()
    pyarrow.parquet.write_table(table, tmp_path / "data/a.parquet")
    found, left_out = read_layout(tmp_path)
    assert found == {"data/a.parquet row 0": ["a dog"], "data/a.parquet row 2": ["a cat"]}
    assert left_out == {"data/a.parquet row 1": "not UTF-8"}


def test_days_that_no_calendar_has_are_listed(tmp_path):
    days = pyarrow.array([0, 2**31 - 1, 1], pyarrow.int32()).cast(pyarrow.date32())
    pyarrow.parquet.write_table(
        pyarrow.table({"caption": days, "jpg": [b"1", b"2", b"3"]}), tmp_path / "a.parquet"
    )
    first, bad, last = read_table(tmp_path / "a.parquet", "a")
    assert (first.read(), last.read(), last.where) == (b"1", b"3", "a row 2")
    assert (bad.where, bad.reason) == ("a row 1", "value that cannot be read")
    _, bad, _ = _parquet_rows(tmp_path / "a.parquet")
    assert (bad.where, bad.reason) == ("a.parquet row 1", "value that cannot be read")


def test_a_text_in_place_of_a_picture_opens_no_file(tmp_path):
    PIL.Image.new("RGB", (8, 8)).save(tmp_path / "private.png")
    for value in (str(tmp_path / "private.png"), 1, {"bytes": b"1"}):
        pyarrow.parquet.write_table(
            pyarrow.table({"url": ["u"], "jpg": [value]}), tmp_path / "a.parquet"
        )
        (sample,) = read_table(tmp_path / "a.parquet", "a")
        with pytest.raises(BadImageError, match="not an image: a .* in place of its bytes"):
            sample.read()
