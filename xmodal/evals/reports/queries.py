"""What a model found for some queries, with texts and pictures, as a file of its evaluation.

The queries are evenly spaced, so all models that are evaluated on the same labels have the same
ones, and a leaderboard shows them side by side without the dataset.
"""

import base64
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.core.files import read_json
from xmodal.core.page import Group, PageItem, PageRow, Picture, Section, to_data_uri

QUERIES = "queries.json"
COUNT = 5  # Queries per direction.


def pack_queries(groups: Sequence[Group]) -> str:
    """Returns the JSON of groups of `examples.make_groups`; it has each picture once."""
    pictures: dict[str, int] = {}

    def pack(picture: Picture) -> int:
        return pictures.setdefault(to_data_uri(picture), len(pictures))

    sections = {
        group.title.partition(": ")[2]: [
            dataclasses.asdict(dataclasses.replace(each, rows=each.rows[:1]))
            for each in group.sections
        ]
        for group in groups
    }
    packed = json.dumps(sections, default=pack)
    return f'{{"sections": {packed}, "pictures": {json.dumps([*pictures])}}}'


def read_queries(folder: epath.Path) -> dict[tuple[str, str], Section]:
    """Returns the queries of an evaluation's folder by benchmark with direction, and by name.

    The title of the row of items is the rank of the query. The result is empty without the file.
    """
    path = folder / QUERIES
    content = read_json(path, "evaluate again.") if path.exists() else {"sections": {}}

    def unpack(item: Mapping[str, Any]) -> PageItem:
        number = item["picture"]
        uri = "," if number is None else content["pictures"][number]
        return PageItem(**{**item, "picture": base64.b64decode(uri.partition(",")[2]) or None})

    found = {}
    for title, sections in content["sections"].items():
        for each in sections:
            name, _, rank = each["title"].rpartition(": ")
            row = PageRow([*map(unpack, each["rows"][0]["items"])], rank)
            found[title, name] = Section(name, [row], unpack(each["query"]))
    return found
