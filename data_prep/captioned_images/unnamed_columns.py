"""Text files without a header: an image and its caption in every line.

    name.jpg: caption        name.jpg,caption        name.jpg#0<tab>caption

More columns than these two need names from the user.
"""

import codecs
import collections
import pathlib
import re
from collections.abc import Iterator, Sequence

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.options import FILE
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.csv_files import scan_rows
from data_prep.reading.picture_names import IMAGE_ENDINGS
from data_prep.reading.quoted_cells import follows_a_writer
from data_prep.reading.split_names import split_of_name
from data_prep.reading.text_files import read_lines
from data_prep.reading.text_lines import read_caption

_ENDINGS = "|".join(re.escape(each) for each in IMAGE_ENDINGS)
_LINE = re.compile(
    rf'\s*"?(?P<image>[^"]+?(?:{_ENDINGS}))"?(?:#\d+)?(?P<mark>\s*[:,;|\t]|\s)\s*(?P<caption>.*)',
    re.IGNORECASE,
)


def mark_of(line: str) -> str:
    """Returns what separates the image from the caption; "" if no image is at the start."""
    found = _LINE.match(line)
    return (found["mark"].strip(" ") or " ") if found else ""


def need_names(path: pathlib.Path, row: Sequence[str]) -> UnexpectedFilesError:
    """Returns the error for columns that only the user can name."""
    return UnexpectedFilesError(
        f"{path} has no header, and its columns could be anything; its first row is "
        f"{list(row)!r:.200}: name them in {FILE}, for example "
        '{"names": ["image", "split", "caption"]}; columns whose names are not known are not read'
    )


def is_plain(path: pathlib.Path, mark: str, *, named: bool) -> bool:
    """Whether a CSV reader gives two columns; if not, the caption is the rest of the line.

    Args:
      path: a file without a header.
      mark: what follows the image in its first line.
      named: whether the user named two columns.

    Raises:
      UnexpectedFilesError: there are more columns, or a quote makes the rows uncertain.
    """
    if mark not in (",", ";", "|", "\t"):
        _check_first_words(path, named=named)
        return False
    quotes = mark in ",;" or follows_a_writer(path, mark)
    lengths: collections.Counter[int] = collections.Counter()
    no_captions = bad = 0
    other: list[str] = []
    breaks = ""
    for row in scan_rows(path, delimiter=mark, quotes=quotes):
        if isinstance(row, LeftOut):
            bad += 1
            continue
        where, fields = row
        lengths[len(fields)] += 1
        is_label = len(fields) == 2 and _is_label(fields[1])
        no_captions += is_label
        if len(fields) > 2 or is_label:
            other = other or fields
        breaks = breaks or (where if "\n" in fields[-1] else "")
    wide = sum(count for length, count in lengths.items() if length > 2)
    if not named and 2 * max(wide, no_captions) > lengths.total():
        raise need_names(path, other)
    if breaks and (bad or wide):
        raise UnexpectedFilesError(
            f"{path.parent / breaks}: a quoted cell has a line break, but elsewhere the caption is "
            "all that follows the image, or has quotes of its own; quote all captions as CSV does"
        )
    return quotes and not bad and not wide


def named_lines(path: pathlib.Path) -> Iterator[tuple[str, str, str] | LeftOut]:
    """Yields the place, the image and the caption of every line, or why it cannot be read."""
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path.name} line {number}"
        text = read_caption(line.removeprefix(codecs.BOM_UTF8), where)
        if isinstance(text, LeftOut):
            if text.reason != "empty caption":  # an empty line
                yield text
            continue
        found = _LINE.match(text.rstrip("\r\n"))
        if found is None:
            yield LeftOut(where, "malformed row", "no image name at its start")
        elif (mark := found["mark"].strip(" ")) in ("\t", "|") and mark in found["caption"]:
            yield LeftOut(where, "malformed row", "more than two fields")
        else:
            yield where, found["image"], unquoted(found["caption"])


def unquoted(field: str) -> str:
    """A field without its quotes, if it is quoted as in CSV."""
    field = field.strip()
    inner = field[1:-1].replace('""', "")
    if len(field) < 2 or field[0] != '"' or field[-1] != '"' or '"' in inner:
        return field
    return field[1:-1].replace('""', '"')


def _check_first_words(path: pathlib.Path, *, named: bool) -> None:
    """Raises an error if most captions start with a number or a split, which no mark separates."""
    labels = total = 0
    example = ""
    for row in named_lines(path):
        if isinstance(row, LeftOut):
            continue
        total += 1
        first = re.split(r"[\s,;:|]", row[2], maxsplit=1)[0]
        if _is_label(first):
            labels, example = labels + 1, example or f"{row[1]} {row[2]}"
    if not named and 2 * labels > total:
        raise need_names(path, example.split(maxsplit=2))


def _is_label(text: str) -> bool:
    return text.strip().isdecimal() or bool(split_of_name(text))
