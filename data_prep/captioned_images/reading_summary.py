"""Summarizes in a few lines how a folder was read."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from data_prep.captioned_images.layouts import Layout
from data_prep.captioned_images.survey import Survey
from data_prep.reading.split_names import SPLITS

_EXAMPLES = 3
_WIDTH = 200  # characters of the captions of an example


def summary(
    layout: Layout,
    found: Survey,
    splits: Sequence[str],
    notes: Mapping[str, int],
    ratings: pathlib.Path | None,
) -> str:
    """Returns lines on the layout, files, columns, images, splits, items left out, and examples."""
    counts = found.num_captions[found.usable]
    low, high = int(counts.min()), int(counts.max())
    of_an_image = f"{low} to {high} captions" if high > low else f"{low} captions"
    if high == 1:
        of_an_image = "1 caption"
    places = np.array(splits, dtype=object)[found.usable]
    sizes = ", ".join(f"{split} {int((places == split).sum()):,}" for split in SPLITS)
    lines = {
        "layout": layout.TITLE,
        **layout.describe(),
        "images": f"{len(counts):,} with {of_an_image}, {_number(found)}",
        "split": f"{sizes}, {_rule(found)}",
    }
    if together := notes["kept together"]:
        lines["split"] += f"; {together:,} copies or images with a shared caption are kept together"
    if twice := notes["copies in two splits"]:
        lines["warning"] = (
            f"{twice:,} images of validation or test have a copy in an earlier split, according "
            "to the files"
        )
    if ratings is not None:
        lines["ratings"] = ratings.name
    lines["left out"] = found.reasons or "nothing"
    for number, each in enumerate(found.examples[:_EXAMPLES], 1):
        captions = " | ".join(" ".join(caption.split()) for caption in each.captions)
        lines[f"example {number}"] = f"{each.name} -> {captions:.{_WIDTH}}"
    return "\n".join(f"  {name:<9} {text}" for name, text in lines.items())


def _number(found: Survey) -> str:
    """The number of captions, and of those with different words if some have the same."""
    keys = found.caption_keys[found.usable[found.caption_rows]]
    different = len(np.unique(keys))
    different_too = f", {different:,} different" if different < len(keys) else ""
    return f"{found.num_captions[found.usable].sum():,} in all{different_too}"


def _rule(found: Survey) -> str:
    named = {split for split, usable in zip(found.splits, found.usable, strict=True) if usable}
    if named == {""}:
        return "by content"
    missing = [split for split in SPLITS if split not in named]
    carved = f", {' and '.join(missing)} out of train by content" if missing else ""
    return f"as given by the files{carved}"
