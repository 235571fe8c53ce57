"""Relevance judgments of any dataset: TREC qrels, or tables of queries, items and grades."""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from data_prep.reading.csv_files import read_csv
from data_prep.reading.picture_names import composed
from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.split import Split
from xmodal.evals.scores.files import lines_of

# NAME_DIRECTION.ENDING, or DIRECTION.ENDING in a folder NAME.
_FILE = re.compile(r"(?:(?P<name>.+)_)?(?P<direction>[it]2[it])\.(?:qrels|csv|tsv)")
_COLUMNS = ("query", "item", "grade")

Judged = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Query ids and gallery ids, int64 [P], and grades, float64 [P]."""


def read_judgments(
    files: Mapping[str, Path], ids: Mapping[str, np.ndarray], split: Split | None = None
) -> dict[str, dict[str, Judged]]:
    """Returns name -> direction -> pairs with a grade above 0, of queries in the split.

    Args:
      files: files by name; those without the name of judgments are not read.
      ids: modality -> ids of its items.
      split: the items, which a file may also name by the name of the image or the text of the
        caption; None if there are only ids.
    """
    names = _find_names(split)
    known = {modality: {*each.tolist()} for modality, each in ids.items()}

    def find(modality: str, name: str) -> list[int]:
        return names[modality].get(composed(name)) or ([int(name)] if name.isdecimal() else [])

    lists: dict[str, dict[str, Judged]] = collections.defaultdict(dict)
    for file, path in sorted(files.items()):
        if matched := _FILE.fullmatch(file):
            name, direction = matched["name"] or path.absolute().parent.name, matched["direction"]
            (asked, kind), pairs = DIRECTIONS[direction], list[tuple[int, int, float]]()
            for where, query, item, grade in _read_rows(path):
                queries = known[asked].intersection(find(asked, query))
                items = find(kind, item)
                if grade > 0 and queries and not items:
                    raise UserError(
                        f"{where}: {item!r} is neither the id of an item nor the name of an image "
                        "or the text of a caption in this split."
                    )
                found = itertools.product(queries, items) if grade > 0 else ()
                # An item is not its own positive.
                pairs += [(q, i, grade) for q, i in found if asked != kind or q != i]
            if direction in lists[name]:
                raise UserError(f"{path} is the second file of {name}_{direction}; keep one.")
            ends = np.array([pair[:2] for pair in pairs], np.int64).reshape(-1, 2).T
            lists[name][direction] = ends[0], ends[1], np.array([pair[2] for pair in pairs])
    return lists


def _find_names(split: Split | None) -> dict[str, dict[str, list[int]]]:
    """Modality -> name or text of an item -> ids."""
    found: dict[str, dict[str, list[int]]] = {each: collections.defaultdict(list) for each in KINDS}
    if split is not None:
        pictures = split.image_ids, split.labels.get("picture", ())
        texts = split.caption_ids, split.caption_texts
        for modality, (ids, names) in {"image": pictures, "text": texts}.items():
            for each, name in zip(ids.tolist(), names, strict=False):
                found[modality][composed(str(name)).strip()].append(each)
    return found


def _read_rows(path: Path) -> Iterator[tuple[str, str, str, float]]:
    """Place, query, item and grade of every row."""
    rows: Iterable[tuple[str, list[str]]]
    if path.suffix == ".qrels":
        lines = enumerate(lines_of(path), 1)
        rows = ((f"{path} row {number}", line.split()) for number, line in lines)
        rows = ((where, cells[:1] + cells[2:]) for where, cells in rows)
    else:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        found = read_csv(path, columns=_COLUMNS, delimiter=delimiter)
        rows = ((str(path.parent / where), [row[x] for x in _COLUMNS]) for where, row in found)
    for where, cells in rows:
        try:
            query, item, grade = cells
            yield where, query.strip(), item.strip(), float(grade)
        except ValueError as error:
            raise UserError(
                f"{where}: {' '.join(cells)!r:.80} is not a query, an item and a number, its grade "
                "(in qrels: query 0 item grade)."
            ) from error
