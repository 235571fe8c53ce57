"""Draws a query and the items it finds, which TensorBoard shows step by step."""

import functools
import io
import textwrap
from collections.abc import Sequence
from importlib.metadata import distribution

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import PIL.ImageOps

from xmodal.core.page import PageItem, PageRow, Picture, Section
from xmodal.core.untrusted.picture_formats import open_picture, to_rgb

# In pixels. TensorBoard shows pictures about 350 wide, so text is legible only in few columns. A
# run keeps pictures of every evaluation, so they should be small.
_COLUMNS, _CELL, _PICTURE, _FRAME = 3, 136, 120, 3
_LINE, _FONT, _LETTERS, _LINES = 15, 12, 19, 4  # For a text in a cell.
_QUALITY = 60  # For JPEG: text is still sharp.
_INK, _PALE, _PAPER, _MARK = (20, 20, 20), (90, 90, 90), (255, 255, 255), (10, 125, 50)
_Lines = Sequence[tuple[str, tuple[int, int, int]]]


def draw_section(section: Section) -> bytes:
    """Returns a picture of a section as a JPEG file; marked items have a green frame."""
    query = [] if section.query is None else [PageRow([section.query])]
    lines = [_draw_cell([(section.title, _INK)], _COLUMNS * _CELL)]
    for row in [*query, *section.rows]:
        if row.title:
            lines.append(_draw_cell([(row.title, _PALE)], _COLUMNS * _CELL))
        items = [_draw_item(item) for item in row.items]
        starts = range(0, len(items), _COLUMNS)
        lines += [_join(items[start : start + _COLUMNS], across=True) for start in starts]
    file = io.BytesIO()
    _join(lines, across=False).save(file, "JPEG", quality=_QUALITY, optimize=True)
    return file.getvalue()


def _draw_item(item: PageItem) -> PIL.Image.Image:
    texts = (item.text, _INK), (" · ".join(item.notes), _PALE), (item.mark, _MARK)
    lines = [
        (line, color)
        for text, color in texts
        for line in textwrap.wrap(text, _LETTERS, max_lines=_LINES, placeholder=" …")
    ]
    cell = _draw_cell(lines, _CELL, item.picture)
    return PIL.ImageOps.expand(cell, _FRAME, _MARK if item.mark else _PAPER)


def _draw_cell(lines: _Lines, width: int, picture: Picture | None = None) -> PIL.Image.Image:
    top = _FRAME + (0 if picture is None else _PICTURE)
    cell = PIL.Image.new("RGB", (width, top + _LINE * len(lines) + _FRAME), _PAPER)
    if picture is not None:
        drawn = _open(picture)
        cell.paste(drawn, ((width - drawn.width) // 2, _FRAME))
    for number, (line, color) in enumerate(lines):
        position = 2 * _FRAME, top + number * _LINE
        PIL.ImageDraw.Draw(cell).text(position, line, color, _font())
    return cell


def _join(images: Sequence[PIL.Image.Image], *, across: bool) -> PIL.Image.Image:
    """Returns images in one row, or below each other."""
    widths, heights = zip(*(image.size for image in images), strict=True)
    size = (sum(widths), max(heights)) if across else (max(widths), sum(heights))
    joined, place = PIL.Image.new("RGB", size, _PAPER), 0
    for image in images:
        joined.paste(image, (place, 0) if across else (0, place))
        place += image.width if across else image.height
    return joined


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
