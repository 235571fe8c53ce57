"""Captions that are stored with a picture: in a text file, a JSON file, or both."""

from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import caption_of, cell_captions
from data_prep.captioned_images.column_names import caption_groups
from data_prep.captioned_images.options import FILE, ReadingOptions
from data_prep.reading.fetched_files import Fetched

TEXT = "txt"
"""Name of the text file among the captions of the options."""

_CAPTION_KEYS = {"caption", "captions"}
_SHOWN_KEYS = 3


def sample_captions(
    item: Fetched, options: ReadingOptions, where: str
) -> list[str | LeftOut] | LeftOut:
    """Returns the captions of a picture, with entries for bad ones; or why they are not clear.

    The lines of its text file are captions, or the values of `caption` and `captions` in its JSON
    file, or of the keys named in the options. If both files have captions, one must have all of
    the other.

    Args:
      item: the picture.
      options: names given by the user.
      where: name of the picture in reports.
    """
    lines: list[str | LeftOut] = [
        caption.removeprefix("\ufeff") if isinstance(caption, str) else caption
        for line in item.text.splitlines()
        if line.strip(b"\xef\xbb\xbf \t")
        for caption in [caption_of(line, where)]
    ]
    if item.fault:
        return LeftOut(where, "unread JSON file", item.fault)
    keys = _keys(item.meta, options, bool(lines))
    if isinstance(keys, str):
        reason, _, detail = keys.partition(": ")
        return LeftOut(where, reason, detail)
    if TEXT in options.captions:
        return lines
    values = list(cell_captions(map(item.meta.get, keys), where)) if keys else []
    if not any(isinstance(value, str) for value in values):
        return lines or values
    return values if options.captions else _joined(lines, values, where)


def _keys(meta: Mapping[str, Any], options: ReadingOptions, has_text: bool) -> Sequence[str] | str:
    """The keys of captions, or why there are none, "reason: detail"."""
    if options.captions:
        return [key for key in options.captions if key in meta]
    if keys := [key for key in meta if key.lower() in _CAPTION_KEYS]:
        return keys
    if has_text or not meta:
        return ()
    groups = caption_groups(list(meta))
    remedy = f'name the key: {{"captions": "KEY"}} in {FILE}'
    if len(groups) > 1:
        first, second = groups[0][0], groups[1][0]
        return f"captions under two keys: {first!r} and {second!r}; {remedy}"
    if not groups:
        shown = ", ".join(map(repr, list(meta)[:_SHOWN_KEYS]))
        more = ", ..." if len(meta) > _SHOWN_KEYS else ""
        return f"no caption under the keys {shown}{more}: {remedy}"
    return groups[0]


def _joined(
    lines: list[str | LeftOut], values: list[str | LeftOut], where: str
) -> list[str | LeftOut] | LeftOut:
    """The captions of both files, if one has all of the other."""
    texts, others = (
        {" ".join(each.split()) for each in found if isinstance(each, str)}
        for found in (lines, values)
    )
    # A caption with line feeds is several lines of the text file.
    if texts <= others or " ".join(map(str, lines)).split() == " ".join(map(str, values)).split():
        return values
    if others <= texts:
        return lines
    detail = (
        f"{str(lines[0])[:60]!r} and {str(values[0])[:60]!r}; choose by a key of the JSON file or "
        f'by {{"captions": "{TEXT}"}} in {FILE}'
    )
    return LeftOut(where, "text and JSON file differ", detail)
