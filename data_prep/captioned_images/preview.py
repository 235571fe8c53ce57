"""Shows how a folder was read: in a few lines, and on a page of pictures with their captions."""

import base64
import collections
import contextlib
import html
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from data_prep.building.image_check import small_jpeg
from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.splits import Picked, SplitNotes
from data_prep.reading.split_names import SPLITS
from data_prep.same_text import text_key
from xmodal.core.errors import BadImageError

_MOST_SHOWN = 20
_SIDE = 240  # pixels
_EXAMPLES = 3
_WIDTH = 200  # characters of the captions of an example
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


class Examples:
    """Keeps the pictures with the smallest digests, so that any order gives the same ones.

    Attributes:
      pictures: digest -> picture and a small JPEG of it.
    """

    def __init__(self) -> None:
        self.pictures: dict[str, tuple[Picked, bytes]] = {}

    def add(self, picture: Picked, encoded: bytes) -> None:
        """Keeps a picture if it is among the first ones."""
        if len(self.pictures) < _MOST_SHOWN or picture.digest < max(self.pictures):
            with contextlib.suppress(BadImageError):  # The build lists it.
                self.pictures[picture.digest] = picture, small_jpeg(encoded, _SIDE)
                for digest in sorted(self.pictures)[_MOST_SHOWN:]:
                    del self.pictures[digest]

    def __iter__(self) -> Iterator[tuple[Picked, bytes]]:
        return (self.pictures[digest] for digest in sorted(self.pictures))


def preview_page(title: str, text: str, examples: Examples) -> bytes:
    """Returns a page that needs no other file.

    Args:
      title: title of the page.
      text: the printed reading of the folder.
      examples: the pictures.
    """
    figures = [
        _FIGURE.format(
            jpeg=base64.b64encode(jpeg).decode("ascii"),
            name=html.escape(each.name),
            split=html.escape(each.split),
            captions="".join(f"<p>{html.escape(caption)}" for caption in _shown(each.captions)),
        )
        for each, jpeg in examples
    ]
    page = _PAGE.format(
        title=html.escape(title), text=html.escape(text), figures="\n".join(figures)
    )
    # Names of files may contain bytes that are not text.
    return page.encode("utf-8", "backslashreplace")


def _shown(captions: Sequence[str]) -> list[str]:
    more = len(captions) - _CAPTIONS
    return [*captions[:_CAPTIONS], *([f"({more:,} more)"] if more > 0 else [])]


def summary(
    layout: Layout,
    pictures: Sequence[Picked],
    notes: SplitNotes,
    left_out: Mapping[str, int],
    examples: Examples,
    ratings: pathlib.Path | None,
) -> str:
    """Returns lines on the layout, files, columns, images, splits, items left out, and examples."""
    counts = [len(picture.captions) for picture in pictures]
    low, high = min(counts), max(counts)
    of_an_image = f"{low} to {high} captions" if high > low else f"{low} captions"
    of_an_image = "1 caption" if high == 1 else of_an_image
    different = len({text_key(text) for picture in pictures for text in picture.captions})
    also = f", {different:,} different" if different < sum(counts) else ""
    sizes = collections.Counter(picture.split for picture in pictures)
    lines = {
        "layout": layout.title,
        "files": layout.files,
        "columns": layout.columns,
        "images": f"{len(counts):,} with {of_an_image}, {sum(counts):,} in all{also}",
        "split": ", ".join(f"{split} {sizes[split]:,}" for split in SPLITS) + f", {notes.rule}",
    }
    if notes.together:
        kept = f"{notes.together:,} copies or images with a shared caption are kept together"
        lines["split"] += f"; {kept}"
    if notes.copied:
        lines["warning"] = (
            f"{notes.copied:,} images of validation or test have a copy in an earlier split, "
            "according to the files"
        )
    lines["ratings"] = ratings.name if ratings is not None else ""
    reasons = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
    lines["left out"] = listed or "nothing"
    for number, (each, _) in enumerate(itertools.islice(examples, _EXAMPLES), 1):
        captions = " | ".join(" ".join(caption.split()) for caption in each.captions)
        lines[f"example {number}"] = f"{each.name} -> {captions:.{_WIDTH}}"
    return "\n".join(f"  {name:<9} {text}" for name, text in lines.items() if text)
