"""Texts of COCO's captions by id, from any of several caption files."""

import itertools
import pathlib
from collections.abc import Iterable, Iterator

from data_prep.reading.csv_files import read_csv
from data_prep.reading.published_files import Photograph, has_json, read_karpathy, read_official
from xmodal.core.errors import UnexpectedFilesError

_KARPATHY = "dataset_coco.json"
# The official captions of val2014, which are also in those of 2017.
_OFFICIAL = (("val2014",), ("train2017", "val2017"))
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
    images: Iterable[Photograph] = ()
    tables = sorted(path for pattern in _TABLES for path in folder.glob(pattern))
    if has_json(folder, _KARPATHY):
        images = itertools.chain.from_iterable(read_karpathy(folder, _KARPATHY).values())
    for parts in _OFFICIAL:
        if not images and all(has_json(folder, f"captions_{part}.json") for part in parts):
            images = [image for part in parts for image in read_official(folder, part)]
    pairs = itertools.chain.from_iterable(image.captions for image in images)
    if not images:
        pairs = itertools.chain.from_iterable(map(_from_table, tables))
        if not tables:
            raise FileNotFoundError(
                f"{folder} has no {_KARPATHY}, captions_val2014.json, captions_train2017.json and "
                f"captions_val2017.json, or {_TABLES[0]}"
            )
    return {number: raw for number, raw in pairs if raw.strip()}


def _from_table(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    for where, row in read_csv(path, columns=("caption_id", "caption")):
        try:
            yield int(row["caption_id"]), row["caption"]
        except ValueError as error:
            raise UnexpectedFilesError(f"{path.parent / where}: {error}") from error
