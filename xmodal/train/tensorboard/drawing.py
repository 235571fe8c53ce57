"""Draws a query and the items it finds, which TensorBoard shows step by step."""

import functools
import textwrap
from collections.abc import Sequence
from importlib.metadata import distribution

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from xmodal.core.page import PageItem, PageRow, Section
from xmodal.core.untrusted.picture_formats import open_picture, to_rgb

# In pixels. TensorBoard shows pictures about 350 wide, so text is legible only in few columns. A
# run keeps pictures of every evaluation, so they should be small.
_COLUMNS = 3
_CELL, _PICTURE, _GAP, _LINE, _FONT = 136, 120, 6, 15, 12
_LETTERS, _LINES = 19, 4  # For a text in a cell.
_INK, _PALE, _PAPER, _MARK = (20, 20, 20), (90, 90, 90), (255, 255, 255), (10, 125, 50)


def draw_section(section: Section) -> np.ndarray:
    """Returns a picture of a section, uint8 [H, W, 3]; marked items have a green frame."""
    query = [] if section.query is None else [PageRow([section.query])]
    lines = [*_lines(PageRow([], section.title)), *(line for row in query for line in _lines(row))]
    lines += [line for row in section.rows for line in _lines(row)]
    size = (_COLUMNS * (_CELL + _GAP) + _GAP, _GAP + sum(map(_line_height, lines)))
    image = PIL.Image.new("RGB", size, _PAPER)
    pen, top = PIL.ImageDraw.Draw(image), _GAP
    for number, line in enumerate(lines):
        if isinstance(line, str):
            pen.text((_GAP, top), line, _PALE if number else _INK, _font(bold=not number))
        else:
            for column, item in enumerate(line):
                _draw_item(image, pen, item, _GAP + column * (_CELL + _GAP), top)
        top += _line_height(line)
    return np.asarray(image)


def _lines(row: PageRow) -> list[str | Sequence[PageItem]]:
    """The title of a row, if it has one, and its items, a few at a time."""
    starts = range(0, len(row.items), _COLUMNS)
    items = [row.items[start : start + _COLUMNS] for start in starts]
    return [row.title, *items] if row.title else [*items]


def _line_height(line: str | Sequence[PageItem]) -> int:
    return _LINE if isinstance(line, str) else _height(line) + _GAP


def _draw_item(
    image: PIL.Image.Image, pen: PIL.ImageDraw.ImageDraw, item: PageItem, left: int, top: int
) -> None:
    down = top + _GAP
    if item.picture is not None:
        picture = _open(item.picture)
        image.paste(picture, (left + (_CELL - picture.width) // 2, down))
        down += _PICTURE
    for line in _wrap(item.text):
        pen.text((left + _GAP, down), line, _INK, _font())
        down += _LINE
    for color, notes in ((_PALE, _notes(item)), (_MARK, item.mark)):
        for line in _wrap(notes):
            pen.text((left + _GAP, down), line, color, _font())
            down += _LINE
    if item.mark:
        pen.rectangle((left, top, left + _CELL, top + _height([item])), outline=_MARK, width=3)


def _height(items: Sequence[PageItem]) -> int:
    """Pixels of the tallest item."""
    return max(
        (
            2 * _GAP
            + (0 if item.picture is None else _PICTURE)
            + _LINE * sum(len(_wrap(text)) for text in (item.text, _notes(item), item.mark))
            for item in items
        ),
        default=0,
    )


def _notes(item: PageItem) -> str:
    return " · ".join(item.notes)


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _LETTERS, max_lines=_LINES, placeholder=" …")


def _open(picture: bytes | PIL.Image.Image) -> PIL.Image.Image:
    """A copy of a picture that fits in a cell; a small one is enlarged by an integer factor."""
    opened = open_picture(picture) if isinstance(picture, bytes) else picture
    scale = _PICTURE / max(opened.size)
    size = tuple(max(1, round(side * scale)) for side in opened.size)
    method = PIL.Image.Resampling.NEAREST if scale > 1 else PIL.Image.Resampling.LANCZOS
    return to_rgb(opened).resize((size[0], size[1]), method)


@functools.cache
def _font(*, bold: bool = False) -> PIL.ImageFont.FreeTypeFont:
    # Matplotlib includes DejaVu, which has more alphabets than Pillow's own font. It is found
    # without its import, which is slow.
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = distribution("matplotlib").locate_file(f"matplotlib/mpl-data/fonts/ttf/{name}")
    return PIL.ImageFont.truetype(str(path), _FONT)
