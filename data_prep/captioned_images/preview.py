"""Shows how a folder was read: in a few lines, and on a page of pictures with their captions."""

import bisect
import collections
import contextlib
import pathlib
from collections.abc import Mapping, Sequence

from data_prep.building.image_check import checked_image
from data_prep.building.record_counts import BadImageError, listing
from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.splits import Picked
from data_prep.reading.split_names import SPLITS
from xmodal.core.page import Group, Page, PageItem, PageRow, Section

_MOST_SHOWN = 20
_EXAMPLES = 3
_WIDTH = 200  # characters of the captions of an example

Example = tuple[str, str, Picked, bytes]
"""Digest and name of a picture, itself, and its encoded image."""


def keep_example(examples: list[Example], picture: Picked, encoded: bytes) -> None:
    """Keeps the pictures with the smallest digests, so that any order gives the same ones."""
    bisect.insort(examples, (picture.digest, picture.name, picture, encoded))
    del examples[_MOST_SHOWN:]


def preview_page(title: str, text: str, examples: Sequence[Example]) -> str:
    """Returns a page that needs no other file.

    Args:
      title: title of the page.
      text: the printed reading of the folder.
      examples: the pictures.
    """
    items = []
    for *_, each, encoded in examples:
        with contextlib.suppress(BadImageError):  # The build lists it.
            image = checked_image(encoded, upright=True)
            items.append(
                PageItem(_captions(each), image, alt=each.name, notes=(each.name, each.split))
            )
    section = Section("Examples", [PageRow(items)])
    return Page(title, [Group("", [section])], notes=text.splitlines()).to_html()


def _captions(picture: Picked) -> str:
    return " | ".join(" ".join(caption.split()) for caption in picture.captions)


def summary(
    layout: Layout,
    pictures: Sequence[Picked],
    notes: Sequence[str],
    left_out: Mapping[str, int],
    examples: Sequence[Example],
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
    for number, (*_, each, _) in enumerate(examples[:_EXAMPLES], 1):
        lines[f"example {number}"] = f"{each.name} -> {_captions(each):.{_WIDTH}}"
    return "\n".join(f"  {name:<9} {text}" for name, text in lines.items() if text)
