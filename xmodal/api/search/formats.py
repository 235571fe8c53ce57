"""Hits as a table, as JSON, and as items of a page."""

import dataclasses
import json
import pathlib
from collections.abc import Sequence

from xmodal.api.search.index import Hit, Index
from xmodal.core.page import PageItem, Picture


def describe_index(index: Index, place: str) -> str:
    """Returns a line per kind of items, with what was left out, and the notes on the index."""
    lines = []
    for kind, gallery in index.galleries.items():
        is_exact = gallery.recall is None
        how = "exact search" if is_exact else f"recall@10 {gallery.recall:.3f} of exact search"
        lines.append(f"{kind}s: {len(gallery.names):,} items, {how}")
        if gallery.left_out:
            lines.append(
                f"left out because they cannot be read: {len(gallery.left_out):,}; "
                f"{place}/index.json lists them"
            )
    return "\n".join([*lines, *index.notes(), f"index in {place}"])


def as_table(hits: Sequence[Hit], notes: Sequence[str]) -> str:
    """Returns a line per hit, rank, score and item, one that names the score, and the notes."""
    lines = [f"{hit.rank:>4}  {hit.score:8.4f}  {hit.item}\n" for hit in hits]
    lines += [f"score: {hit.definition}\n" for hit in hits[:1]]
    return "".join([*lines, *(f"note: {note}\n" for note in notes)])


def as_json(query: str, hits: Sequence[Hit], notes: Sequence[str]) -> str:
    """Returns `{"query", "hits", "notes"}`; the hits have the fields of `Hit`."""
    content = {"query": query, "hits": [dataclasses.asdict(hit) for hit in hits], "notes": notes}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def show_item(item: str, picture: Picture | None, notes: Sequence[str], mark: str = "") -> PageItem:
    """Returns a picture with its file name and a link to the file; see `PageItem`."""
    path = pathlib.Path(item)
    name, link = (path.name, path.as_uri()) if path.is_absolute() else (item, "")
    return PageItem(name, picture, name, notes, mark, link)
