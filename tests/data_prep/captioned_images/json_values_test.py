"""Any JSON value in any place of a user's file is read, listed or refused."""

import copy
import json

import pytest

from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.options import ReadingOptions
from data_prep.captioned_images.survey import look_at_part, survey
from tests.data_prep.captioned_images import own_folders as folders
from xmodal.core.errors import UnexpectedFilesError

FIRST, SECOND = folders.name(0), folders.name(1)
ROWS = [
    {"image": FIRST, "caption": "one", "split": "train"},
    {"image": SECOND, "caption": ["two", "three"], "split": "val"},
]
SENTENCES = [{"raw": "one", "sentid": 1}]
FILES = {
    "captions.json": {
        "images": [{"id": 1, "file_name": FIRST, "split": "train"}, {"id": 2, "file_name": SECOND}],
        "annotations": [{"image_id": 1, "caption": "one"}, {"image_id": 2, "caption": "two"}],
    },
    "dataset.json": {
        "images": [{"filename": FIRST, "imgid": 1, "split": "train", "sentences": SENTENCES}]
    },
    "by_image.json": {FIRST: ["one", "two"], SECOND: "three"},
    "rows.json": ROWS,
    "rows.jsonl": ROWS,
    "p000.json": {"caption": "one", "url": "u", "split": "train"},
    "captioned_images.json": {"captions": ["txt"], "split": "none", "table": "none"},
}
VALUES = (None, True, 1, 1.5, float("nan"), "", "\ud800", [], {}, [1], {"path": [1]})


def places(content, place=()):
    yield place
    inner = content.items() if isinstance(content, dict) else ()
    for key, value in enumerate(content) if isinstance(content, list) else inner:
        yield from places(value, (*place, key))


def replaced(content, place, value):
    if not place:
        return value
    content = inner = copy.deepcopy(content)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return content


@pytest.mark.parametrize("name", FILES)
def test_every_value_in_every_place(name, tmp_path):
    folders.write_images(tmp_path, [0, 1], ".")
    understood = 0
    for place in places(FILES[name]):
        for value in VALUES:
            content = replaced(FILES[name], place, value)
            lines = content if name.endswith("l") and isinstance(content, list) else [content]
            (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
            try:
                layout = find_layout(tmp_path, ReadingOptions.read(tmp_path))
                looks = (look_at_part(layout, part) for part in layout.parts())
                survey(looks, by_content=False)
                understood += 1
            except UnexpectedFilesError:
                pass
    assert understood
