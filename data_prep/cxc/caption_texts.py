"""Texts of COCO's captions by id, from any of several files of captions."""

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from data_prep.errors import UnexpectedFilesError
from data_prep.reading.json_values import text, whole_number
from data_prep.reading.published_json import WRONG_FORM, has_json, read_published_json, wrong_form
from data_prep.reading.text_files import read_csv

KARPATHY, OFFICIAL, TABLES = "dataset_coco.json", "captions_val2014.json", "captions*.csv"


def read_caption_texts(folder: pathlib.Path) -> dict[int, str]:
    """Reads every caption of the first of these files that exists.

    Karpathy's `dataset_coco.json` or COCO's `captions_val2014.json`, also in the archives that they
    are handed out in; all tables `captions*.csv`, packed or not, with the columns `caption_id` and
    `caption`.

    Returns:
      Caption id -> text as it stands there, which may end in spaces; without those that are blank.

    Raises:
      FileNotFoundError: none of them exists.
      UnexpectedFilesError: a file is damaged or of another form.
    """
    for name, read in ((KARPATHY, _from_karpathy), (OFFICIAL, _from_coco)):
        if has_json(folder, name):
            content, source = read_published_json(folder, name)
            try:
                return _without_blank(read(content))
            except WRONG_FORM as error:
                raise wrong_form(source, error) from error
    tables = sorted([*folder.glob(TABLES), *folder.glob(f"{TABLES}.gz")])
    if not tables:
        raise FileNotFoundError(f"{folder} has no {KARPATHY}, {OFFICIAL} or {TABLES}")
    return _without_blank(pair for path in tables for pair in _from_table(path))


def _without_blank(captions: Iterable[tuple[int, str]]) -> dict[int, str]:
    return {number: raw for number, raw in captions if raw.strip()}


def _from_karpathy(content: Any) -> Iterator[tuple[int, str]]:
    for image in content["images"]:
        for sentence in image["sentences"]:
            yield whole_number(sentence["sentid"]), text(sentence["raw"])


def _from_coco(content: Any) -> Iterator[tuple[int, str]]:
    for annotation in content["annotations"]:
        yield whole_number(annotation["id"]), text(annotation["caption"])


def _from_table(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    for where, row in read_csv(path, columns=("caption_id", "caption")):
        number = row["caption_id"]
        if not number.isdecimal() or len(number) > 10:
            raise UnexpectedFilesError(f"{path.parent / where}: {number!r} is no caption id")
        yield int(number), row["caption"]
