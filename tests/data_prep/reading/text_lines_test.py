"""Lines by number."""

import pytest

from data_prep.reading.text_lines import TextLines


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_lines_are_those_of_the_file(tmp_path, end):
    lines = [b"one", b"", b"two\rhalves", b"na\xefve\ttab", b" spaces ", b"last"]
    path = tmp_path / "list.txt"
    path.write_bytes(b"one\n\ntwo\rhalves\r\nna\xefve\ttab\n spaces \nlast" + end)
    found = TextLines(path)
    assert len(found) == 6
    assert list(found) == lines
    assert [found[n] for n in (5, 0, 3)] == [b"last", b"one", b"na\xefve\ttab"]
    for number in (-1, 6):
        with pytest.raises(IndexError, match="has 6 lines, no number"):
            found[number]


@pytest.mark.parametrize("end", [b"", b"\n", b"\nsecond"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, end):
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbfan owl" + end)
    assert list(TextLines(path)) == [b"an owl", *end.split(b"\n")[1:]][: 1 + end.count(b"s")]
    path.write_bytes(b"\xef\xbb\xbf")
    assert list(TextLines(path)) == []
