"""Hits as a table, as JSON, and as a single-file page of pictures."""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Sequence

from xmodal.api.search.index import Hit, Index
from xmodal.core.page import Group, Page, PageItem, PageRow, Picture, Section


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
                f"{place}/{kind}_left_out.json lists them"
            )
    return "\n".join([*lines, *index.notes, f"index in {place}"])


def as_table(hits: Sequence[Hit], notes: Sequence[str] = ()) -> str:
    """Returns a line per hit, rank, score and item, one that names the score, and the notes."""
    lines = [f"{hit.rank:>4}  {hit.score:8.4f}  {hit.item}\n" for hit in hits]
    lines += [f"score: {hit.definition}\n" for hit in hits[:1]]
    return "".join([*lines, *(f"note: {note}\n" for note in notes)])


def as_json(query: str, hits: Sequence[Hit], notes: Sequence[str] = ()) -> str:
    """Returns `{"query", "hits": [{"rank", "row", "item", "score", "definition"}]}`.

    With notes, there is also `"notes"`, a list of texts.
    """
    content = {"query": query, "hits": [dataclasses.asdict(hit) for hit in hits]}
    content |= {"notes": list(notes)} if notes else {}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def as_page(
    query: str,
    hits: Sequence[Hit],
    picture: Callable[[Hit], Picture | None],
    asked: Picture | None = None,
    notes: Sequence[str] = (),
) -> Page:
    """Returns a page of pictures, which link to their files, with the names of these.

    Args:
      query: text or name of a file.
      hits: hits to show.
      picture: returns the picture of a hit; None if there is none to show.
      asked: the picture of the query.
      notes: sentences on the query.
    """
    items = [show_item(hit.item, picture(hit), [f"{hit.rank}", f"{hit.score:.4f}"]) for hit in hits]
    own = None if asked is None else PageItem(picture=asked, alt=query)
    score = "".join(f" by {hit.definition}" for hit in hits[:1])
    section = Section(f"{len(hits)} hits, most similar{score} first", [PageRow(items)], own)
    return Page(query, [Group("", [section])], notes)


def show_item(item: str, picture: Picture | None, notes: Sequence[str], mark: str = "") -> PageItem:
    """Returns a picture with its name, that of its file, which it links to; see `PageItem`."""
    path = pathlib.Path(item)
    name, link = (path.name, path.as_uri()) if path.is_absolute() else (item, "")
    return PageItem(name, picture, name, notes, mark, link)
