"""Texts of COCO's captions by id, from whichever file of captions is at hand."""

import pathlib
from collections.abc import Iterator
from typing import Any

from data_prep.errors import UnexpectedFilesError
from data_prep.text_files import read_csv, read_json

KARPATHY, OFFICIAL, TABLES = "dataset_coco.json", "captions_val2014.json", "captions*.csv"


def read_caption_texts(folder: pathlib.Path) -> dict[int, str]:
    """Reads every caption of the first of these files that is there.

    Karpathy's `dataset_coco.json`; COCO's `captions_val2014.json`, also in a folder `annotations`;
    all tables `captions*.csv`, packed or not, with the columns `caption_id` and `caption`.

    Returns:
      Caption id -> text.

    Raises:
      FileNotFoundError: none of them is there.
      UnexpectedFilesError: a file is damaged or of another form.
    """
    for path, read in (
        (folder / KARPATHY, _from_karpathy),
        (folder / OFFICIAL, _from_coco),
        (folder / "annotations" / OFFICIAL, _from_coco),
    ):
        if path.exists():
            try:
                return dict(read(read_json(path)))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise UnexpectedFilesError(
                    f"{path} does not have the form of {path.name}: {error!r}. Fetch it again."
                ) from error
    tables = sorted([*folder.glob(TABLES), *folder.glob(f"{TABLES}.gz")])
    if not tables:
        raise FileNotFoundError(f"{folder} has no {KARPATHY}, {OFFICIAL} or {TABLES}")
    return dict(pair for path in tables for pair in _from_table(path))


def _from_karpathy(content: Any) -> Iterator[tuple[int, str]]:
    for image in content["images"]:
        for sentence in image["sentences"]:
            yield int(sentence["sentid"]), sentence["raw"].strip()


def _from_coco(content: Any) -> Iterator[tuple[int, str]]:
    for annotation in content["annotations"]:
        yield int(annotation["id"]), annotation["caption"].strip()


def _from_table(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    for where, row in read_csv(path, columns=("caption_id", "caption")):
        if not row["caption_id"].isdecimal():
            raise UnexpectedFilesError(
                f"{path.parent / where}: {row['caption_id']!r} is no caption id"
            )
        yield int(row["caption_id"]), row["caption"].strip()
