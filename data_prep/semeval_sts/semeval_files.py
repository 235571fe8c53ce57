"""Finds and reads the sets of sentence pairs in their usual layouts."""

import collections
import filecmp
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from data_prep.reading.csv_files import read_csv
from data_prep.semeval_sts.rated_sets import SETS, RatedSet
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import files_below

_SENTENCES = ("sentence1", "sentence2")
_TABLE_COLUMNS = ("year", "dataset", "split", "score", *_SENTENCES)
_YEAR = re.compile(r"(?:20|STS)(1[2-6])(?!\d)")
# OnWN and SMTnews were surprise sets in 2012; the 2014 readme calls the images set `image`.
_OFFICIAL = re.compile(r"STS(?:2016)?\.input\.(?:surprise\.)?(.+)\.txt")
_PASTED = re.compile(r"(.+)\.(train|test)\.tsv")
_ALIASES = {"image": "images"}
_BENCHMARK = {"train": "sts-train.csv", "validation": "sts-dev.csv", "test": "sts-test.csv"}
_BENCHMARK_COLUMNS = ("genre", "file", "year", "index", "score", *_SENTENCES)
_SICK = {
    "train": "SICK_train.txt",
    "validation": "SICK_trial.txt",
    "test": "SICK_test_annotated.txt",
}
_SICK_COLUMNS = {"sentence_A": "sentence1", "sentence_B": "sentence2", "relatedness_score": "score"}


class Scored(NamedTuple):
    """One scored pair of sentences.

    Attributes:
      where: file and line.
      score: as text.
      sentences: the two.
    """

    where: str
    score: str
    sentences: tuple[str, str]


Sets = dict[RatedSet, list[Scored]]


def find_sets(folder: pathlib.Path) -> Sets:
    """Reads every set in a folder and its subfolders.

    If there are several layouts, the first of these is used: the official `STS.input.*.txt` and
    `STS.gs.*.txt`; `<set>.<train or test>.tsv` with the score first; one table `semeval_sts*.csv`,
    gzipped or not. In the first two, folder names give the year (`2014`, `STS14-en-test`) and
    `train`. The STS benchmark and SICK may be present in addition to any of them.

    Returns:
      Set -> its scored pairs in the order of the file, and the rows that are damaged.

    Raises:
      FileNotFoundError: there are none, or scores are missing.
      UnexpectedFilesError: a set appears twice, or scores and sentences do not match.
    """
    found = _find_tasks(folder)
    for name, (files, read) in _SETS_OF_SPLITS.items():
        for each in SETS:
            paths = files_below(folder, files[each.split]) if each.name == name else []
            for path in _only(each, paths):
                found[each] = list(read(path))
    if not found:
        raise FileNotFoundError(
            f"{folder} has no STS.input.*.txt, <set>.test.tsv or semeval_sts*.csv, no sts-test.csv "
            "and no SICK_test_annotated.txt"
        )
    return found


def _find_tasks(folder: pathlib.Path) -> Sets:
    """The sets of 2012 to 2016."""
    for pattern, name in (("*.input.*.txt", _OFFICIAL), ("*.tsv", _PASTED)):
        files = _files_of_sets(folder, pattern, name)
        if files:
            read = _read_official if name is _OFFICIAL else _read_pasted
            return {rated_set: list(read(path)) for rated_set, path in files.items()}
    tables = files_below(folder, "semeval_sts*.csv", "semeval_sts*.csv.gz")
    if len(tables) > 1:
        raise UnexpectedFilesError(f"{folder} has several tables: {', '.join(map(str, tables))}")
    return _read_table(tables[0]) if tables else {}


def _files_of_sets(
    folder: pathlib.Path, pattern: str, name: re.Pattern[str]
) -> dict[RatedSet, pathlib.Path]:
    known = {(each.year, each.name.lower(), each.split): each for each in SETS}
    found: dict[RatedSet, list[pathlib.Path]] = {}
    for path in files_below(folder, pattern):
        place = str(path.relative_to(folder))
        match, year = name.fullmatch(path.name), _YEAR.search(place)
        if match and year:
            title = _ALIASES.get(match[1], match[1]).lower()
            split = "train" if "train" in place.lower() else "test"
            # Other sets are for other languages, or combine all sets of a year in one file.
            if rated_set := known.get((2000 + int(year[1]), title, split)):
                found.setdefault(rated_set, []).append(path)
    return {each: _only(each, paths)[0] for each, paths in found.items()}


def _only(rated_set: RatedSet, paths: list[pathlib.Path]) -> list[pathlib.Path]:
    """The first of equal files of a set."""
    for path in paths[1:]:
        if not filecmp.cmp(paths[0], path, shallow=False):
            raise UnexpectedFilesError(
                f"{paths[0]} and {path} are both {rated_set} but differ: keep only the right one."
            )
    return paths[:1]


def _read_official(path: pathlib.Path) -> Iterator[Scored]:
    """Sentences in one file and scores in another, with a blank line for a missing score."""
    gold = path.with_name(path.name.replace(".input.", ".gs."))
    scores, first = (
        each.read_text(encoding="utf-8-sig", errors="replace").removesuffix("\n").split("\n")
        for each in (gold, path)
    )
    # Lines of the 2012 training sets start with a pair id; those of 2016 end with two notes.
    columns = ("id", *_SENTENCES) if first[0].count("\t") == 2 else _SENTENCES
    rows = list(_scan(path, columns))
    if len(rows) != len(scores):
        raise UnexpectedFilesError(
            f"{path} has {len(rows):,} pairs and {gold.name} {len(scores):,} scores; their first "
            f"lines are {first[0]!r:.80} and {scores[0]!r:.80}: remove a header, or download them "
            "again"
        )
    for row, score in zip(rows, scores, strict=True):
        if score.strip():
            yield _scored(row, score)


def _read_pasted(path: pathlib.Path) -> Iterator[Scored]:
    for row in _scan(path, ("score", *_SENTENCES)):
        if row[1]["score"].strip():
            yield _scored(row)


def _read_benchmark(path: pathlib.Path) -> Iterator[Scored]:
    return map(_scored, _scan(path, _BENCHMARK_COLUMNS))


def _read_sick(path: pathlib.Path) -> Iterator[Scored]:
    for where, fields in _scan(path, tuple(_SICK_COLUMNS), header=True):
        yield _scored((where, {ours: fields[theirs] for theirs, ours in _SICK_COLUMNS.items()}))


def _scan(
    path: pathlib.Path, columns: Sequence[str], *, header: bool = False
) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows with tabs, in which quotes belong to the sentences."""
    return read_csv(path, columns=columns, delimiter="\t", header=header, quotes=False)


def _read_table(path: pathlib.Path) -> Sets:
    known = {(str(each.year), each.name, each.split): each for each in SETS}
    found: Sets = collections.defaultdict(list)
    # A row that cannot be read may belong to any set.
    for where, fields in read_csv(path, columns=_TABLE_COLUMNS):
        key = tuple(fields[column] for column in _TABLE_COLUMNS[:3])
        if key not in known:
            raise UnexpectedFilesError(f"{path.parent / where}: unknown set {' '.join(key)}")
        found[known[key]].append(_scored((where, fields)))
    return dict(found)


def _scored(row: tuple[str, dict[str, str]], score: str = "") -> Scored:
    where, fields = row
    # Copies differ in the space at the end of sentences.
    first, second = (fields[name].strip() for name in _SENTENCES)
    return Scored(where, (score or fields["score"]).strip(), (first, second))


_SETS_OF_SPLITS = {"stsbenchmark": (_BENCHMARK, _read_benchmark), "sick": (_SICK, _read_sick)}
