"""A page of pictures with their captions, on which a person sees a shifted or swapped column."""

import base64
import dataclasses
import html
from collections.abc import Mapping, Sequence

MOST_SHOWN = 20
_CAPTIONS = 6
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 15px/1.4 sans-serif; margin: 2em; color-scheme: light dark }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(16em, 1fr)); gap: 1.5em }}
figure {{ margin: 0 }}
pre {{ white-space: pre-wrap }}
h1, pre, figcaption {{ overflow-wrap: anywhere }}
small {{ opacity: 0.7 }}
</style>
<header>
<h1>{title}</h1>
<pre>{text}</pre>
</header>
<main>
{figures}
</main>
</html>
"""
_FIGURE = """<figure><img src="data:image/jpeg;base64,{jpeg}" alt="{name}">
<figcaption><small>{name}, {split}</small>{captions}</figcaption></figure>"""


@dataclasses.dataclass(frozen=True)
class Example:
    """A picture to show.

    Attributes:
      name: its name.
      captions: its captions.
      jpeg: a small copy.
    """

    name: str
    captions: tuple[str, ...]
    jpeg: bytes


def preview_page(
    title: str, text: str, examples: Sequence[Example], splits: Mapping[str, str]
) -> bytes:
    """Returns a page that needs no other file.

    Args:
      title: title of the page.
      text: the printed reading of the folder.
      examples: the pictures.
      splits: name of a picture -> its split.
    """
    figures = [
        _FIGURE.format(
            jpeg=base64.b64encode(each.jpeg).decode("ascii"),
            name=html.escape(each.name),
            split=html.escape(splits[each.name]),
            captions="".join(f"<p>{html.escape(caption)}" for caption in _shown(each.captions)),
        )
        for each in examples
    ]
    page = _PAGE.format(
        title=html.escape(title), text=html.escape(text), figures="\n".join(figures)
    )
    # Names of files may contain bytes that are not text.
    return page.encode("utf-8", "backslashreplace")


def _shown(captions: Sequence[str]) -> list[str]:
    more = len(captions) - _CAPTIONS
    return [*captions[:_CAPTIONS], *([f"({more:,} more)"] if more > 0 else [])]
