"""Draws a query and the items it finds, which TensorBoard shows step by step."""

import functools
import io
import os
import textwrap
from collections.abc import Sequence

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from xmodal.page import Item, Row, Section

# Pixels. An item is a cell of a row; the query stands left of all rows.
_CELL, _PICTURE, _GAP, _LINE = 168, 148, 8, 16
_LETTERS, _LINES = 23, 4  # of a text in a cell
_INK, _PALE, _PAPER, _MARK = (20, 20, 20), (105, 105, 105), (255, 255, 255), (10, 125, 50)


def draw_section(section: Section) -> np.ndarray:
    """Returns a picture of a section, uint8 [H, W, 3]; marked items have a green frame."""
    columns = 1 + max((len(row.items) for row in section.rows), default=0)
    heights = [_LINE + _height(row.items) for row in section.rows]
    query = [] if section.query is None else [section.query]
    body = max(sum(heights) + _GAP * len(heights), _height(query))
    size = (columns * (_CELL + _GAP) + _GAP, _LINE + 3 * _GAP + body)
    image = PIL.Image.new("RGB", size, _PAPER)
    pen = PIL.ImageDraw.Draw(image)
    pen.text((_GAP, _GAP), section.title, _INK, _font(bold=True))
    top = _LINE + 2 * _GAP
    for item in query:
        _draw_item(image, pen, item, _GAP, top)
    for row, height in zip(section.rows, heights, strict=True):
        _draw_row(image, pen, row, top)
        top += height + _GAP
    return np.asarray(image)


def _draw_row(image: PIL.Image.Image, pen: PIL.ImageDraw.ImageDraw, row: Row, top: int) -> None:
    left = _CELL + 2 * _GAP
    pen.text((left, top), row.title, _PALE, _font())
    for column, item in enumerate(row.items):
        _draw_item(image, pen, item, left + column * (_CELL + _GAP), top + _LINE)


def _draw_item(
    image: PIL.Image.Image, pen: PIL.ImageDraw.ImageDraw, item: Item, left: int, top: int
) -> None:
    down = top + _GAP
    if item.picture is not None:
        picture = _open(item.picture)
        image.paste(picture, (left + (_CELL - picture.width) // 2, down))
        down += _PICTURE
    for line in _wrap(item.text):
        pen.text((left + _GAP, down), line, _INK, _font())
        down += _LINE
    for color, notes in ((_PALE, item.notes), (_MARK, [item.mark])):
        for line in _wrap(*notes):
            pen.text((left + _GAP, down), line, color, _font())
            down += _LINE
    if item.mark:
        pen.rectangle((left, top, left + _CELL, top + _height([item])), outline=_MARK, width=3)


def _height(items: Sequence[Item]) -> int:
    """Pixels of the tallest item."""
    return max(
        (
            2 * _GAP
            + (0 if item.picture is None else _PICTURE)
            + _LINE * len([*_wrap(item.text), *_wrap(*item.notes), *_wrap(item.mark)])
            for item in items
        ),
        default=0,
    )


def _wrap(*texts: str) -> list[str]:
    """The lines of texts, each of which begins a line."""
    return [
        line
        for text in texts
        for line in textwrap.wrap(text, _LETTERS, max_lines=_LINES, placeholder=" …")
    ]


def _open(picture: bytes | PIL.Image.Image) -> PIL.Image.Image:
    """A copy of a picture that fits into a cell; a small one is enlarged by whole pixels."""
    opened = PIL.Image.open(io.BytesIO(picture)) if isinstance(picture, bytes) else picture
    scale = _PICTURE / max(opened.size)
    size = tuple(max(1, round(side * scale)) for side in opened.size)
    method = PIL.Image.Resampling.NEAREST if scale > 1 else PIL.Image.Resampling.LANCZOS
    return opened.convert("RGB").resize((size[0], size[1]), method)


@functools.cache
def _font(*, bold: bool = False) -> PIL.ImageFont.FreeTypeFont:
    # Matplotlib brings DejaVu, which has more alphabets than Pillow's own font.
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return PIL.ImageFont.truetype(os.path.join(matplotlib.get_data_path(), "fonts/ttf", name), 12)
