"""What a model found for some queries, with texts and pictures, as a file of its evaluation.

The queries are evenly spaced, so all models that are evaluated on the same labels have the same
ones, and a leaderboard shows them side by side without the dataset.
"""

import base64
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from etils import epath

from xmodal.core.files import read_json
from xmodal.core.page import Page, PageItem, PageRow, Section, to_data_uri

QUERIES = "queries.json"
FIXED = "evenly spaced"
"""Their rule on the page of examples, see `examples.Pick`."""


def pack_queries(page: Page) -> str:
    """Returns the JSON of the evenly spaced queries on a page of examples, and what they find."""
    rule = f"{FIXED.capitalize()}: "
    sections = {
        group.title.removeprefix(rule): [
            dataclasses.asdict(dataclasses.replace(each, rows=each.rows[:1]))
            for each in group.sections
        ]
        for group in page.groups
        if group.title.startswith(rule)
    }
    return json.dumps(sections, default=to_data_uri)


def read_queries(folder: epath.Path) -> dict[tuple[str, str], Section]:
    """Returns the queries of an evaluation's folder by benchmark with direction, and by name.

    The title of the row of items is the rank of the query. The result is empty without the file.
    """
    path, found = folder / QUERIES, {}
    content = read_json(path, "evaluate again.") if path.exists() else {}
    for title, sections in content.items():
        for each in sections:
            name, _, rank = each["title"].rpartition(": ")
            row = PageRow([*map(_unpack, each["rows"][0]["items"])], rank)
            found[title, name] = Section(name, [row], _unpack(each["query"]))
    return found


def _unpack(item: Mapping[str, Any]) -> PageItem:
    encoded = (item["picture"] or "").partition(",")[2]
    return PageItem(**{**item, "picture": base64.b64decode(encoded) or None})
