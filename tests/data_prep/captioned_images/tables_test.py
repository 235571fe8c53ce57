"""Text tables: what quotes do to rows, and columns without a header."""

import csv
import io
import re

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.tables import open_table
from xmodal.core.errors import UnexpectedFilesError

_TEXTS = ["a dog", 'a "big", brown dog', "two\nlines", '"quoted"', "one, two", "5", "tabs\tinside"]


def _rows(folder, text, name="all.csv", names=(), image="image"):
    path = folder / name
    path.write_bytes(text.encode())
    table = open_table(path, names)
    return [
        row if isinstance(row, LeftOut) else tuple(row[1].values())
        for row in table.rows(image if image in table.names else "", {"cat", "owl"}.__contains__)
    ]


@pytest.mark.parametrize("sep", [",", "\t", ";", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_what_pandas_writes_is_read_as_it_was(sep, quoting, tmp_path):
    # Between tabs or bars, cells have neither line breaks nor delimiters.
    texts = [text for text in _TEXTS if sep in ",;" or not {"\n", sep} & {*text}]
    written = [(f"{n}.jpg", text) for n, text in enumerate(texts)]
    for end in ("\n", "\r\n"):
        file = io.StringIO()
        # What pandas uses.
        writer = csv.writer(file, delimiter=sep, quoting=quoting, lineterminator=end)
        writer.writerows([("image", "caption"), *written])
        assert _rows(tmp_path, file.getvalue()) == written


_LINES = ["image,caption", *(f"p{n}.jpg,number {n}" for n in range(9))]


@pytest.mark.parametrize(
    ("broken", "start", "said"),
    [
        ({3: 'p2.jpg,"number 2'}, 4, "does not end it as it should .*unexpected end"),
        ({9: 'p8.jpg,"number 8'}, 10, "unexpected end"),
        ({3: 'p2.jpg,"number 2', 6: 'p5.jpg,number 5"'}, 4, "line 5 into it.*p3.jpg,number 3"),
        ({3: 'p2.jpg,"number 2', 4: 'p3.jpg,number 3"'}, 4, "line 5 into it.*p3.jpg,number 3"),
        ({3: 'p2.jpg,"number 2', 6: 'p5.jpg,"number 5"'}, 4, "does not end it as it should"),
    ],
)
def test_a_quote_that_takes_rows_into_its_cell_is_an_error_with_its_line(
    broken, start, said, tmp_path
):
    lines = [broken.get(n, line) for n, line in enumerate(_LINES)]
    with pytest.raises(UnexpectedFilesError, match=rf"all.csv line {start}: a quote opens.*{said}"):
        _rows(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    "lines",
    [
        ["16,'x", '17,"a', "18,b", '19,c"'],  # ids
        ["img_16,x", 'img_17,"a', 'img_18,b"'],
        ["owl,x", 'cat,"a', 'owl,b"'],  # known names
    ],
)
def test_rows_with_other_names_are_seen_in_a_cell_too(lines, tmp_path):
    with pytest.raises(UnexpectedFilesError, match="looks like another row"):
        _rows(tmp_path, "\n".join(["image,caption", *lines]))
    turned = [",".join(reversed(line.split(","))).replace('"', "") for line in lines]
    assert len(_rows(tmp_path, "\n".join(["caption,image", *turned]))) == len(lines)


def test_a_row_with_odd_commas_is_seen_in_a_cell_too(tmp_path):
    lines = ["caption,image", '"one,p1.jpg', "two, three,p2.jpg", 'four",p3.jpg']
    with pytest.raises(UnexpectedFilesError, match="takes line 3 into it"):
        _rows(tmp_path, "\n".join(lines))


def test_a_caption_of_several_lines_is_no_other_row(tmp_path):
    text = 'image,caption\n16,"1 dog, brown\n2 cats, white\nand, so on"\n17,x\n'
    assert _rows(tmp_path, text) == [("16", "1 dog, brown\n2 cats, white\nand, so on"), ("17", "x")]


def test_empty_rows_of_a_spreadsheet_are_no_rows(tmp_path):
    text = 'image;caption\r\na.jpg;a dog\r\n;\r\n"";" "\r\nb.jpg;\r\n;\r\n'
    assert _rows(tmp_path, text) == [("a.jpg", "a dog"), ("b.jpg", "")]


def test_quotes_of_the_text_stay_in_files_with_tabs(tmp_path):
    said = '"Hello" says a man'
    text = f'image\tcaption\na.jpg\t{said}\nb.jpg\t"open\nc.jpg\ta 5" nail\n'
    expected = [("a.jpg", said), ("b.jpg", '"open'), ("c.jpg", 'a 5" nail')]
    assert _rows(tmp_path, text) == expected
    turned = f'caption\timage\n{said}\ta.jpg\n"two\nlines"\tb.jpg\n'
    with pytest.raises(UnexpectedFilesError, match=r"line 3: a quote opens its last cell"):
        _rows(tmp_path, turned)
    both = f'image\tcaption\na.jpg\t{said}\nb.jpg\t"two\nlines"\n'
    with pytest.raises(UnexpectedFilesError, match=r"line 3: a quote opens its last cell"):
        _rows(tmp_path, both)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("{}| 0| a thing .", ("image", "number", "caption")),
        ("{}\ta dog\ta cat\tan owl", ("image", "caption_1", "caption_2", "caption_3")),
        ("{}#0\ta dog", ("image", "caption")),
        ("{},train,a dog", ("image", "split", "caption")),
        ("{};7;a dog", ("image", "id", "caption")),
        ("0,{},a dog", ("id", "image", "caption")),
        ("a dog,{}", ("caption", "image")),
    ],
)
def test_columns_without_a_header_get_names(line, names, tmp_path):
    text = "\n".join(line.format(f"p{n}.jpg") for n in range(4)) + "\n"
    found = _rows(tmp_path, text, names=names)
    assert [row[names.index("image")] for row in found] == [f"p{n}.jpg" for n in range(4)]
    assert [",".join(row) for row in found] == [
        re.sub("(#0)?[\t;|] ?", ",", line.format(f"p{n}.jpg")) for n in range(4)
    ]


def test_names_must_fit_the_first_line(tmp_path):
    with pytest.raises(UnexpectedFilesError, match="names 4 columns, but the first line"):
        _rows(tmp_path, "a.jpg,train,one\n", names=("image", "split", "caption", "more"))


def test_lines_of_old_macs_are_an_error(tmp_path):
    with pytest.raises(UnexpectedFilesError, match="lines that end in CR alone"):
        _rows(tmp_path, "image,caption\ra.jpg,one\rb.jpg,two\r")


def test_a_name_may_be_several_times_in_a_json_object(tmp_path):
    path = tmp_path / "captions.json"
    path.write_text('{"1.jpg": "one", "2.jpg": ["two"], "1.jpg": ["three", "four"]}')
    rows = [(row["image"], row["captions"]) for _, row in open_table(path).rows()]
    assert rows == [("1.jpg", "one"), ("2.jpg", ["two"]), ("1.jpg", ["three", "four"])]


def test_a_key_that_is_twice_in_a_row_is_an_error(tmp_path):
    path = tmp_path / "captions.jsonl"
    path.write_text(
        '{"image": "1.jpg", "text": "a"}\n{"image": "2.jpg", "text": "b", "text": "c"}\n'
    )
    with pytest.raises(UnexpectedFilesError, match="line 2 .*the key 'text' occurs twice"):
        open_table(path)
    path = tmp_path / "captions.json"
    path.write_text('[{"image": "2.jpg", "text": "b", "text": "c"}]')
    with pytest.raises(UnexpectedFilesError, match="the key 'text' occurs twice"):
        open_table(path)
