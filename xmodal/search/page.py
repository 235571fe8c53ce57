"""Hits as a table, as JSON, and as a page of pictures in one file."""

import base64
import dataclasses
import html
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import PIL.Image

from xmodal.search.index import Hit

_SIDE = 240  # pixels of a thumbnail
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; background: #fff; }}
ol {{ display: flex; flex-wrap: wrap; gap: 1rem; list-style: none; padding: 0; }}
li {{ width: 240px; overflow-wrap: anywhere; }}
img {{ max-width: 240px; max-height: 240px; display: block; }}
small {{ color: #666; }}
</style>
</head>
<body>
<h1>{title}</h1>
{query}
<ol>
{items}
</ol>
</body>
</html>
"""


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
    picture: Callable[[Hit], Any],
    asked: PIL.Image.Image | None = None,
) -> str:
    """Returns an HTML page with all thumbnails in it.

    Args:
      query: text or path.
      hits: to show.
      picture: returns the picture of a hit, of PIL, or None where there is none to show.
      asked: the picture of the query.
    """
    items = "\n".join(
        f"<li>{_thumbnail(picture(hit))}<small>{hit.rank} · {hit.score:.4f}</small> "
        f"{html.escape(hit.item)}</li>"
        for hit in hits
    )
    return _PAGE.format(title=html.escape(query), query=_thumbnail(asked), items=items)


def _thumbnail(picture: PIL.Image.Image | None) -> str:
    if picture is None:
        return ""
    small = picture.convert("RGB")
    small.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=85)
    encoded = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="" src="data:image/jpeg;base64,{encoded}">'
