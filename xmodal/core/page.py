"""Single-file HTML pages with sections of pictures and text, readable without a server.

A page loads nothing and runs no script but its own, so it can be mailed and opened offline. Its
colors follow the reader's light or dark scheme, and its links lead from section to section by
keyboard.
"""

import base64
import collections
import dataclasses
import hashlib
import html
import io
from collections.abc import Sequence

import jinja2
import PIL.Image

from xmodal.core.untrusted.picture_formats import open_picture, to_rgb

Picture = bytes | PIL.Image.Image

_SIDE = 320  # In pixels; larger pictures are shrunk.
SHOWN = ("PNG", "JPEG", "GIF", "WEBP")
"""Formats that every browser shows."""


@dataclasses.dataclass(frozen=True)
class PageItem:
    """A picture, a text, or both.

    Attributes:
      text: shown literally, whatever characters it has.
      picture: an encoded file, or a PIL image.
      alt: describes the picture to readers who cannot see it.
      notes: short facts under it.
      mark: a word in a colored frame, such as "own"; "" for no frame.
      link: address of the whole picture; "" for no link.
    """

    text: str = ""
    picture: Picture | None = dataclasses.field(default=None, repr=False)  # Long when printed.
    alt: str = ""
    notes: Sequence[str] = ()
    mark: str = ""
    link: str = ""


@dataclasses.dataclass(frozen=True)
class PageRow:
    """Items in their order, under a title."""

    items: Sequence[PageItem]
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Section:
    """A query and the rows of items that belong to it.

    Attributes:
      title: heads the section, and names it in links.
      query: shown first, larger than other items.
      rows: rows of items.
    """

    title: str
    rows: Sequence[PageRow]
    query: PageItem | None = None


@dataclasses.dataclass(frozen=True)
class Group:
    """Sections under a title and a sentence about their common subject."""

    title: str
    sections: Sequence[Section]
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
      title: title of the page.
      groups: groups of sections; groups without a title have no heading.
      notes: paragraphs under the title.
      body: HTML before the groups, inserted unchanged; see `from_markdown`.
      style: CSS after that of every page.
      script: JavaScript at the end, the only one that runs.
    """

    title: str
    groups: Sequence[Group] = ()
    notes: Sequence[str] = ()
    body: str = ""
    style: str = ""
    script: str = ""

    @property
    def script_source(self) -> str:
        """The script as the content security policy names it."""
        digest = hashlib.sha256(f"\n{self.script}\n".encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    def to_html(self) -> str:
        """Returns the page as HTML with embedded pictures."""
        sections = [section for group in self.groups for section in group.sections]
        items = [item for each in sections for row in each.rows for item in row.items]
        items += [each.query for each in sections if each.query is not None]
        counts = collections.Counter(_key(each.picture) for each in items)
        return TEMPLATES.get_template("page.html").render(page=self, counts=counts)

    def _repr_html_(self) -> str:
        """Shows the page in a notebook, in its own frame."""
        # Otherwise, links to sections would open the notebook in the frame.
        framed = self.to_html().replace("<head>", '<head><base href="about:srcdoc">', 1)
        title, text = html.escape(self.title), html.escape(framed)
        return f'<iframe title="{title}" srcdoc="{text}" width="100%" height="720"></iframe>'


def from_markdown(text: str) -> Page:
    """Returns a page of a text whose first line is its title, such as a report.

    HTML in the text is escaped; wide tables scroll.
    """
    import markdown

    head, _, rest = text.partition("\n")
    converter = markdown.Markdown(extensions=["tables", "fenced_code"])
    converter.preprocessors.deregister("html_block")
    converter.inlinePatterns.deregister("html")
    table = '<div class="table" tabindex="0" role="group" aria-label="Table"><table>'
    body = converter.convert(rest).replace("<table>", table).replace("<th></th>", "<td></td>")
    return Page(head.removeprefix("# "), body=body.replace("</table>", "</table></div>"))


def _key(picture: Picture | None) -> bytes | int:
    return picture if isinstance(picture, bytes) else id(picture)


def _open(picture: Picture) -> PIL.Image.Image:
    return open_picture(picture) if isinstance(picture, bytes) else picture


def to_data_uri(picture: Picture) -> str:
    """Returns a picture as a data URI, unchanged or shrunk to 320 pixels.

    Raises:
      Exception: the bytes are not a picture, see `open_picture`.
    """
    opened = _open(picture)
    kind = opened.format or ""
    if not (isinstance(picture, bytes) and kind in SHOWN and max(opened.size) <= _SIDE):
        picture, kind = encode_jpeg(opened, _SIDE), "JPEG"
    return f"data:image/{kind.lower()};base64,{base64.b64encode(picture).decode()}"


def encode_jpeg(picture: PIL.Image.Image, side: int) -> bytes:
    """Returns a picture as JPEG; sides longer than `side` pixels are shrunk."""
    small, file = to_rgb(picture), io.BytesIO()
    small.thumbnail((side, side))
    small.save(file, "JPEG", quality=85)
    return file.getvalue()


TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("xmodal.core", "."),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
TEMPLATES.filters |= {"data_uri": to_data_uri, "key": _key, "open": _open}
