"""Shows how a folder was read: in a few lines, and on a page of pictures with their captions."""

import collections
import contextlib
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from data_prep.building.image_check import checked_image
from data_prep.building.record_counts import listing
from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.splits import Picked
from data_prep.reading.split_names import SPLITS
from xmodal.core.errors import BadImageError
from xmodal.core.page import Group, Page, PageItem, PageRow, Section

_MOST_SHOWN = 20
_EXAMPLES = 3
_WIDTH = 200  # characters of the captions of an example


class Examples:
    """Keeps the pictures with the smallest digests, so that any order gives the same ones."""

    def __init__(self) -> None:
        self._pictures: dict[str, tuple[Picked, bytes]] = {}

    def add(self, picture: Picked, encoded: bytes) -> None:
        """Keeps a picture if it is among the first ones."""
        if len(self._pictures) < _MOST_SHOWN or picture.digest < max(self._pictures):
            with contextlib.suppress(BadImageError):  # The build lists it.
                image = checked_image(encoded, upright=True).encoded
                self._pictures[picture.digest] = picture, image
            if len(self._pictures) > _MOST_SHOWN:
                del self._pictures[max(self._pictures)]

    def __iter__(self) -> Iterator[tuple[Picked, bytes]]:
        return (self._pictures[digest] for digest in sorted(self._pictures))


def preview_page(title: str, text: str, examples: Examples) -> str:
    """Returns a page that needs no other file.

    Args:
      title: title of the page.
      text: the printed reading of the folder.
      examples: the pictures.
    """
    items = [
        PageItem(_captions(each), image, alt=each.name, notes=(each.name, each.split))
        for each, image in examples
    ]
    section = Section("Examples", [PageRow(items)])
    return Page(title, [Group("", [section])], notes=text.splitlines()).to_html()


def _captions(picture: Picked) -> str:
    return " | ".join(" ".join(caption.split()) for caption in picture.captions)


def summary(
    layout: Layout,
    pictures: Sequence[Picked],
    notes: Sequence[str],
    left_out: Mapping[str, int],
    examples: Examples,
    ratings: pathlib.Path | None,
) -> str:
    """Returns lines on the layout, files, columns, images, splits, items left out, and examples."""
    counts = [len(picture.captions) for picture in pictures]
    low, high = min(counts), max(counts)
    span = f"{low} to {high}" if high > low else f"{low}"
    sizes = collections.Counter(picture.split for picture in pictures)
    lines = {
        "layout": layout.title,
        "files": layout.files,
        "columns": layout.columns,
        "images": f"{len(counts):,} with {span} caption{'s' * (high > 1)}, {sum(counts):,} in all",
        "split": ", ".join(f"{split} {sizes[split]:,}" for split in SPLITS)
        + f", {'; '.join(notes)}",
        "ratings": ratings.name if ratings is not None else "",
        "left out": listing(left_out) or "nothing",
    }
    for number, (each, _) in enumerate(itertools.islice(examples, _EXAMPLES), 1):
        lines[f"example {number}"] = f"{each.name} -> {_captions(each):.{_WIDTH}}"
    return "\n".join(f"  {name:<9} {text}" for name, text in lines.items() if text)
