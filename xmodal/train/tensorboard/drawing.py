"""Draws a query and the items it finds, which TensorBoard shows step by step."""

import functools
import io
import textwrap
from importlib.metadata import distribution

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from xmodal.core.page import PageItem, PageRow, Picture, Section
from xmodal.core.untrusted.picture_formats import open_picture, to_rgb

# In pixels. TensorBoard shows pictures about 350 wide, so text is legible only in few columns. A
# run keeps pictures of every evaluation, so they should be small.
_COLUMNS, _CELL, _PICTURE, _FRAME = 3, 140, 120, 3
_LINE, _FONT, _LETTERS, _LINES = 15, 12, 19, 4  # For a text in a cell.
_QUALITY = 60  # For JPEG: text is still sharp.
_INK, _PALE, _PAPER, _MARK = (20, 20, 20), (90, 90, 90), (255, 255, 255), (10, 125, 50)


def draw_section(section: Section) -> bytes:
    """Returns a picture of a section as a JPEG file; marked items have a green frame."""
    query = [] if section.query is None else [PageRow([section.query])]
    sheet = PIL.Image.new("RGB", (_COLUMNS * _CELL, 10_000), _PAPER)
    draw, top = PIL.ImageDraw.Draw(sheet), _LINE
    draw.text((2 * _FRAME, 0), section.title, _INK, _font())
    for row in [*query, *section.rows]:
        draw.text((2 * _FRAME, top), row.title, _PALE, _font())
        top += _LINE if row.title else 0
        for start in range(0, len(row.items), _COLUMNS):
            items = row.items[start : start + _COLUMNS]
            top += max(_draw_item(sheet, n * _CELL, top, item) for n, item in enumerate(items))
    file = io.BytesIO()
    sheet.crop((0, 0, sheet.width, top)).save(file, "JPEG", quality=_QUALITY, optimize=True)
    return file.getvalue()


def _draw_item(sheet: PIL.Image.Image, left: int, top: int, item: PageItem) -> int:
    """Draws an item in a cell of the sheet, and returns the height of the cell."""
    draw, height = PIL.ImageDraw.Draw(sheet), 2 * _FRAME
    if item.picture is not None:
        drawn = _open(item.picture)
        sheet.paste(drawn, (left + (_CELL - drawn.width) // 2, top + height))
        height += _PICTURE
    for text, color in (item.text, _INK), (" · ".join(item.notes), _PALE), (item.mark, _MARK):
        for line in textwrap.wrap(text, _LETTERS, max_lines=_LINES, placeholder=" …"):
            draw.text((left + 3 * _FRAME, top + height), line, color, _font())
            height += _LINE
    height += 2 * _FRAME
    if item.mark:
        draw.rectangle((left, top, left + _CELL - 1, top + height - 1), None, _MARK, _FRAME)
    return height


def _open(picture: Picture) -> PIL.Image.Image:
    """Returns a picture that fits in a cell, enlarged in blocks of pixels if it is small."""
    opened = open_picture(picture) if isinstance(picture, bytes) else picture
    scale = _PICTURE / max(opened.size)
    width, height = (max(1, round(side * scale)) for side in opened.size)
    method = PIL.Image.Resampling.NEAREST if scale > 1 else PIL.Image.Resampling.LANCZOS
    return to_rgb(opened).resize((width, height), method)


@functools.cache
def _font() -> PIL.ImageFont.FreeTypeFont:
    # Matplotlib includes DejaVu, which has more alphabets than Pillow's own font. It is found
    # without its import, which is slow.
    path = distribution("matplotlib").locate_file("matplotlib/mpl-data/fonts/ttf/DejaVuSans.ttf")
    return PIL.ImageFont.truetype(str(path), _FONT)
