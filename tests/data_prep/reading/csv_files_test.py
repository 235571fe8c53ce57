"""Rows with delimiters, good and bad."""

import gzip

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.reading.csv_files import read_csv, scan_csv
from xmodal.core.errors import UnexpectedFilesError

_TABLE = 'id,text\n1,plain\n2,"two\nlines, one ""field"""\n\n3,naïve\n'


def _write(path, content):
    encoded = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(encoded) if path.suffix == ".gz" else encoded)
    return path


@pytest.mark.parametrize(("name", "start"), [("a.csv", "\ufeff"), ("a.csv.gz", "")])
def test_rows_come_with_their_place(tmp_path, name, start):
    path = _write(tmp_path / name, start + _TABLE)
    assert list(read_csv(path, columns=["text", "id"])) == [
        (f"{name} line 2", {"id": "1", "text": "plain"}),
        (f"{name} line 3", {"id": "2", "text": 'two\nlines, one "field"'}),
        (f"{name} line 6", {"id": "3", "text": "naïve"}),
    ]


_BAD_ROWS = {
    "1,x\n9,to,o\n2,fine\n": (
        "line 3",
        "malformed row",
        "3 fields instead of 2: '9,to,o'",
    ),
    b"1,x\n9,\xe9t\xe9\n2,fine\n": ("line 3", "not UTF-8", "save the file as UTF-8"),
    '1,x\n9,"a"b\n2,fine\n': ("line 3", "malformed row", "expected after"),
}


@pytest.mark.parametrize("content", _BAD_ROWS)
def test_a_bad_row_is_named_and_the_others_are_read(tmp_path, content):
    place, reason, detail = _BAD_ROWS[content]
    encoded = content if isinstance(content, bytes) else content.encode()
    path = _write(tmp_path / "a.csv", b"id,text\n" + encoded)
    rows = list(scan_csv(path, ["id", "text"], ",", header=True, quotes=True))
    (bad,) = [row for row in rows if isinstance(row, LeftOut)]
    assert (bad.where, bad.reason) == (f"a.csv {place}", reason)
    assert detail in bad.detail
    good = [row[1]["id"] for row in rows if not isinstance(row, LeftOut)]
    assert good == ["1", "2"]
    with pytest.raises(UnexpectedFilesError, match=rf"{path} {place}: {reason}, .*{detail}"):
        list(read_csv(path, columns=["id", "text"]))


def test_an_open_quote_is_an_error_since_it_may_cost_any_number_of_rows(tmp_path):
    path = _write(tmp_path / "a.csv", 'id,text\n1,x\n9,"open\n2,fine\n3,"fine"\n')
    with pytest.raises(UnexpectedFilesError, match=f"{path} line 3: a quote opens a cell and does"):
        list(read_csv(path, columns=["id", "text"]))
