"""Finds and reads the sets of sentence pairs in their usual layouts."""

import collections
import filecmp
import itertools
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from data_prep.reading.csv_files import read_csv
from data_prep.reading.text_files import files_below
from data_prep.semeval_sts.rated_sets import SETS, RatedSet
from xmodal.core.errors import UnexpectedFilesError

_SENTENCES = ("sentence1", "sentence2")
_TABLE_COLUMNS = ("year", "dataset", "split", "score", *_SENTENCES)
_YEAR = re.compile(r"(?:20|STS)(1[2-6])(?!\d)")
# OnWN and SMTnews were surprise sets in 2012; the 2014 readme calls the images set `image`.
_OFFICIAL = re.compile(r"STS(?:2016)?\.input\.(?:surprise\.)?(.+)\.txt")
_PASTED = re.compile(r"(.+)\.(?:train|test)\.tsv")
_ALIASES = {"image": "images"}
_BENCHMARK_COLUMNS = ("genre", "file", "year", "index", "score", *_SENTENCES)
_SICK_COLUMNS = ("sentence_A", "sentence_B", "relatedness_score")
# Set -> files of the splits.
_OTHERS = {
    "stsbenchmark": ("sts-train.csv", "sts-dev.csv", "sts-test.csv"),
    "sick": ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"),
}


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
    for each in SETS:
        if each.name in _OTHERS:
            name = _OTHERS[each.name][("train", "validation", "test").index(each.split)]
            for path in _only(each, files_below(folder, name)):
                found[each] = list(_read_other(path))
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
            return {each: list(_read_scored(path)) for each, path in files.items()}
    tables = files_below(folder, "semeval_sts*.csv", "semeval_sts*.csv.gz")
    known = {(str(each.year), each.name, each.split): each for each in SETS}
    found: Sets = collections.defaultdict(list)
    for path in tables:
        # A row that cannot be read may belong to any set.
        for where, fields in read_csv(path, columns=_TABLE_COLUMNS):
            key = tuple(fields[column] for column in _TABLE_COLUMNS[:3])
            if key not in known:
                raise UnexpectedFilesError(f"{path.parent / where}: unknown set {' '.join(key)}")
            found[known[key]].append(_scored(where, fields))
    return dict(found)


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


def _read_scored(path: pathlib.Path) -> Iterator[Scored]:
    """The pairs of a set with their score before them, or in another file; blank for no score."""
    if path.suffix == ".tsv":
        rows = list(_scan(path, ("score", *_SENTENCES)))
        scores = [fields["score"] for _, fields in rows]
    else:
        gold = path.with_name(path.name.replace(".input.", ".gs."))
        scores, first = (
            each.read_text(encoding="utf-8-sig", errors="replace").removesuffix("\n").split("\n")
            for each in (gold, path)
        )
        # Lines of the 2012 training sets start with a pair id; those of 2016 end with two notes.
        rows = list(_scan(path, ("id", *_SENTENCES) if first[0].count("\t") == 2 else _SENTENCES))
        if len(rows) != len(scores):
            raise UnexpectedFilesError(
                f"{path} has {len(rows):,} pairs and {gold.name} {len(scores):,} scores; their "
                f"first lines are {first[0]!r:.80} and {scores[0]!r:.80}: remove a header, or "
                "download them again"
            )
    for (where, fields), score in zip(rows, scores, strict=True):
        if score.strip():
            yield _scored(where, {**fields, "score": score})


def _read_other(path: pathlib.Path) -> Iterator[Scored]:
    """The pairs of the STS benchmark, or of SICK, which has a header."""
    if path.suffix == ".csv":
        rows = _scan(path, _BENCHMARK_COLUMNS)
    else:
        names = dict(zip(_SICK_COLUMNS, (*_SENTENCES, "score"), strict=True))
        rows = (
            (where, {names.get(name, name): text for name, text in fields.items()})
            for where, fields in _scan(path, _SICK_COLUMNS, header=True)
        )
    return itertools.starmap(_scored, rows)


def _scan(
    path: pathlib.Path, columns: Sequence[str], *, header: bool = False
) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows with tabs, in which quotes belong to the sentences."""
    return read_csv(path, columns=columns, delimiter="\t", header=header, quotes=False)


def _scored(where: str, fields: Mapping[str, str]) -> Scored:
    # Copies differ in the space at the end of sentences.
    first, second = (fields[name].strip() for name in _SENTENCES)
    return Scored(where, fields["score"].strip(), (first, second))
