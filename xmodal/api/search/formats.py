"""Hits as a table, as JSON, and as a single-file page of pictures."""

import dataclasses
import json
from collections.abc import Callable, Sequence

from xmodal.api.search.hits import Hit
from xmodal.base.page import Group, Page, PageItem, PageRow, Picture, Section


def as_table(hits: Sequence[Hit]) -> str:
    """Returns a line per hit: rank, score and item."""
    return "".join(f"{hit.rank:>4}  {hit.score:8.4f}  {hit.item}\n" for hit in hits)


def as_json(query: str, hits: Sequence[Hit]) -> str:
    """Returns `{"query", "hits": [{"rank", "row", "item", "score"}]}`."""
    content = {"query": query, "hits": [dataclasses.asdict(hit) for hit in hits]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def as_page(
    query: str,
    hits: Sequence[Hit],
    picture: Callable[[Hit], Picture | None],
    asked: Picture | None = None,
) -> Page:
    """Returns a page of pictures.

    Args:
      query: text or path.
      hits: hits to show.
      picture: returns the picture of a hit; None if there is none to show.
      asked: the picture of the query.
    """
    items = [
        PageItem(hit.item, picture(hit), hit.item, notes=[f"{hit.rank}", f"{hit.score:.4f}"])
        for hit in hits
    ]
    own = None if asked is None else PageItem(picture=asked, alt=query)
    section = Section(f"{len(hits)} hits, most similar first", [PageRow(items)], own)
    return Page(query, [Group("", [section])])
