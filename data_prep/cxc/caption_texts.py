"""Texts of COCO's captions by id, from any of several caption files."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator

from data_prep.reading.csv_files import read_csv
from data_prep.reading.published_files import WRONG_FORM, has_json, read_published_json, wrong_form
from xmodal.core.errors import UnexpectedFilesError

# Karpathy's file, or the official captions of val2014, which are also in those of 2017.
_JSON = (
    ("dataset_coco.json",),
    ("captions_val2014.json",),
    ("captions_train2017.json", "captions_val2017.json"),
)
_TABLES = ("captions*.csv", "captions*.csv.gz")


def read_caption_texts(folder: pathlib.Path) -> dict[int, str]:
    """Reads all captions from the first of these files that exists.

    Karpathy's `dataset_coco.json`; COCO's `captions_val2014.json`, or `captions_train2017.json` and
    `captions_val2017.json`; each also in the archive in which it is distributed; all tables
    `captions*.csv`, gzipped or not, with the columns `caption_id` and `caption`.

    Returns:
      Caption id -> text as in the file, possibly with trailing spaces; blank captions are left out.

    Raises:
      FileNotFoundError: none of them exists.
      UnexpectedFilesError: a file is damaged or in another format.
    """
    pairs: Iterable[tuple[int, str]]
    names = next((each for each in _JSON if all(has_json(folder, name) for name in each)), ())
    tables = sorted(path for pattern in _TABLES for path in folder.glob(pattern))
    if names:
        pairs = itertools.chain.from_iterable(_from_json(folder, name) for name in names)
    elif tables:
        pairs = itertools.chain.from_iterable(map(_from_table, tables))
    else:
        wanted = ", ".join(" and ".join(each) for each in _JSON)
        raise FileNotFoundError(f"{folder} has no {wanted} or {_TABLES[0]}")
    return {number: raw for number, raw in pairs if raw.strip()}


def _from_json(folder: pathlib.Path, name: str) -> Iterator[tuple[int, str]]:
    content, source = read_published_json(folder, name)
    try:
        if name in _JSON[0]:
            for each in itertools.chain.from_iterable(i["sentences"] for i in content["images"]):
                yield int(each["sentid"]), str(each["raw"])
        else:
            for each in content["annotations"]:
                yield int(each["id"]), str(each["caption"])
    except WRONG_FORM as error:
        raise wrong_form(source, error) from error


def _from_table(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    for where, row in read_csv(path, columns=("caption_id", "caption")):
        try:
            yield int(row["caption_id"]), row["caption"]
        except ValueError as error:
            raise UnexpectedFilesError(f"{path.parent / where}: {error}") from error
