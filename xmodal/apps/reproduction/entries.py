"""The results: every number that a paper or this project prints, `configs/results/*.toml`.

    title = "A paper (2020)"

    [systems.mine]                         # the fields of `System`
    label = "Mine"
    needs = ["coco"]                       # of files.toml
    run = ["evaluate --config=... --config.data.manual_dir={coco} --output={out}"]

    [[tables]]                             # the fields of `LedgerTable`
    name = "table 1"
    source = "table 1"
    columns = "coco5k/{i2t,t2i}/recall@1"  # two tags
    tolerance = 0.2
    reason = "other decoders change single ranks"
    [tables.published]                     # and [tables.measured]
    mine = "41.3 30.3"                     # or a list of cells; "-" is an empty cell
    "other_file/theirs" = "50.3±0.4 -"

The file's name is the group. With `system = "KEY"`, all rows of a table belong to one system, and
their keys are their labels. Commands may contain the folders of files.toml and parts that its
`commands` name; {out}, the folder of the results; {model}, that of converted weights; {work}, that
of everything; {seed}; and {draws}, the trials of a search.
"""

import dataclasses
import importlib.util
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xmodal.core.errors import UserError
from xmodal.evals.reports.published import expand_columns, read_result_files

Folders = Mapping[str, pathlib.Path]
_NUMBER = re.compile(r"[-+]?\d*\.?\d+")
_BRACKETS = re.compile(r"\[[^\]]*\]")
VARIABLE = "XMODAL_TEST_DATA"
STATUSES = ("measured here", "parity only", "needs files", "unverified", "not covered")


class Value(str):
    """A number as it is printed.

    "41.3"; "74.4±0.4" with a deviation; "23.6 / 24.9" of two seeds; with an interval in brackets;
    or a word, in a column that is not of numbers.
    """

    __slots__ = ()

    @property
    def number(self) -> float | None:
        """The number, of several seeds their mean; None for words and intervals alone."""
        parts = [part.split("±")[0].strip() for part in _BRACKETS.sub("", self).split("/")]
        if not all(_NUMBER.fullmatch(part) for part in parts):
            return None
        return sum(map(float, parts)) / len(parts)

    @property
    def deviation(self) -> float:
        """The number after ±, or 0."""
        return float(self.partition("±")[2] or 0)


@dataclasses.dataclass(frozen=True)
class Files:
    """Files that are downloaded, or come with a package.

    Attributes:
      key: the name by which systems need them.
      title: a noun phrase for messages.
      source: addresses or packages.
      folder: name of their folder, as in `XMODAL_TEST_DATA`; "." is that folder itself.
      package: name of an installed package in place of a folder.
      names: paths below the folder, or of "." also below a folder in it; A|B is either of them.
        None if a system needs what its commands read.
      sha256: name -> checksum, if known; of one that ends with ..., only the beginning is known.
    """

    key: str
    title: str
    source: str
    names: Sequence[str] = ()
    folder: str = ""
    package: str = ""
    sha256: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def brace(self) -> str:
        """The name in braces by which commands call the folder or the package."""
        return self.key if self.package else {".": "labels"}.get(self.folder, self.folder)

    def exist(self, name: str, folder: pathlib.Path) -> bool:
        """Returns whether a folder has one of the alternatives of a name."""
        # Files of the folder of all folders may also be in one of these.
        prefixes = ("", "*/") if self.folder == "." else ("",)
        names = [f"{prefix}{each}" for each in name.split("|") for prefix in prefixes]
        return any(next(folder.glob(each), None) for each in names)

    def describe_missing(self, names: Sequence[str]) -> str:
        """Returns a sentence on missing files, with their known checksums and their source."""
        facts = [f"SHA-256 of {name}: {self.sha256[name]}" for name in names if name in self.sha256]
        where = "" if self.package else f"; --folder={self.brace}=PATH or {VARIABLE} names it"
        listed = ", ".join(name.replace("|", " or ") for name in names)
        return "; ".join([f"{self.title}: missing {listed}, from {self.source}{where}", *facts])


@dataclasses.dataclass(frozen=True)
class System:
    """A model or method, and the commands that compute its numbers.

    Attributes:
      name: "GROUP/KEY", the argument of `xmodal reproduce`.
      label: its name in tables, in Markdown.
      needs: keys of `PublishedResults.files`.
      run: commands of `xmodal`, with the names of folders in braces.
      seeds: the commands run once per seed, and their mean is compared.
      minutes: CPU minutes of all commands and seeds; None if unknown.
      parity: a test that compares the implementation with the publisher's, or with its labels.
      like: the paper's system that it imitates on other data.
      tolerance: the tolerance of all of its rows, if it is trained again where the paper's numbers
        are of released weights.
      evaluator: the evaluator of its numbers, if several have metrics of the same name.
      metric: replaces the metric in the tags of its rows.
      note: remarks for readers of the list.
    """

    name: str
    label: str
    needs: Sequence[str] = ()
    run: Sequence[str] = ()
    seeds: Sequence[int] = ()
    minutes: float | None = None
    parity: str = ""
    like: str = ""
    tolerance: float = 0.0
    evaluator: str = ""
    metric: str = ""
    note: str = ""

    def first_seeds(self, count: int | None) -> "System":
        """Returns the system with at most `count` seeds, and their share of the minutes."""
        if count is None or len(self.seeds) <= count:
            return self
        minutes = None if self.minutes is None else self.minutes * count / len(self.seeds)
        return dataclasses.replace(self, seeds=self.seeds[:count], minutes=minutes)


@dataclasses.dataclass(frozen=True)
class LedgerTable:
    """The common fields of the rows of a printed table.

    Attributes:
      name: "GROUP/NAME"; of our tables, the marker in Markdown.
      columns: tags of metrics; A+B is the mean of two.
      tolerance: largest difference, in the units of the table, that counts as reproduced.
      reason: why it is not 0.
      source: table and place of the paper.
      scale: factor from metrics to the table's units.
      unverified: the numbers were not checked in the source, and are never printed as published.
      page: the Markdown file that shows the table.
      heads: names of the columns there.
      corner: the cell above the names of the rows.
      above: systems whose published numbers are printed first.
      beside: whether published numbers are printed in parentheses.
      transposed: whether systems are columns.
    """

    name: str
    columns: Sequence[str]
    tolerance: float
    reason: str
    source: str = ""
    scale: float = 1.0
    unverified: bool = False
    page: str = ""
    heads: Sequence[str] = ()
    corner: str = ""
    above: Sequence[str] = ()
    beside: bool = False
    transposed: bool = False


@dataclasses.dataclass(frozen=True)
class LedgerRow:
    """The numbers of a system in a table.

    Attributes:
      system: the system.
      table: the table.
      published: tag -> number of the paper.
      measured: tag -> number measured here.
      label: the system's, or that of one of several rows of a system.
    """

    system: System
    table: LedgerTable
    published: Mapping[str, Value]
    measured: Mapping[str, Value]
    label: str

    @property
    def tolerance(self) -> float:
        """The largest difference that counts as reproduced."""
        return max(self.system.tolerance, self.table.tolerance)

    @property
    def statuses(self) -> dict[str, str]:
        """Tag of every printed cell -> one of `STATUSES`."""
        if self.table.unverified:
            other = "unverified"
        elif self.system.parity:
            other = "parity only"
        else:
            other = "needs files" if self.system.run else "not covered"
        cells = {**self.published, **self.measured}
        return {tag: "measured here" if tag in self.measured else other for tag in cells}


@dataclasses.dataclass(frozen=True)
class PublishedResults:
    """All rows, and the requirements of their commands.

    Attributes:
      titles: group -> title.
      rows: in the order of the files.
      files: key -> files.
    """

    titles: Mapping[str, str]
    rows: Sequence[LedgerRow]
    files: Mapping[str, Files]

    def of_system(self, name: str) -> list[LedgerRow]:
        """The rows of a system, of all papers that report on it."""
        return [row for row in self.rows if row.system.name == name]

    def missing(self, system: System, folders: Folders) -> dict[str, list[str]]:
        """Returns the key of `files` -> names that a system needs and `folders` lacks."""
        found, needed = {}, [self.files[key] for key in system.needs]
        others = {path for each in needed for name in each.names for path in name.split("|")}
        for files in needed:
            # For sets without names, a system needs the files that its commands read, without those
            # of other sets: a publisher has many models.
            read = re.findall(rf"{{{files.folder}}}/(\S+)", " ".join(system.run))
            names = files.names or [name for name in dict.fromkeys(read) if name not in others]
            folder = folders.get(files.brace)
            if absent := [name for name in names if not folder or not files.exist(name, folder)]:
                found[files.key] = absent
        return found

    def find_folders(self, named: Sequence[str]) -> dict[str, pathlib.Path]:
        """Returns the folders that commands read, by the name that they have in braces.

        Args:
          named: NAME=PATH, instead of the folder NAME in the folder that `XMODAL_TEST_DATA` names.
        """
        root = os.environ.get(VARIABLE)
        names = {files.brace: files.folder for files in self.files.values() if files.folder}
        found = {name: pathlib.Path(root, each) for name, each in names.items()} if root else {}
        for each in named:
            name, _, path = each.partition("=")
            if name not in names or not os.path.isdir(path):
                known = ", ".join(sorted(names))
                raise UserError(f"--folder={each} must be NAME=PATH, a folder for one of {known}.")
            found[name] = pathlib.Path(path).absolute()
        for key, files in self.files.items():
            if files.package and (spec := importlib.util.find_spec(files.package)):
                found[key] = pathlib.Path(str(spec.origin)).parent
        return found

    @property
    def systems(self) -> dict[str, System]:
        """Name -> system, those with rows."""
        return {row.system.name: row.system for row in self.rows}


def fill(text: str, places: Mapping[str, str]) -> str:
    """Returns a text with the names in braces that are known replaced, in the order of `places`."""
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def read_results(folder: pathlib.Path | None = None) -> PublishedResults:
    """Reads FOLDER/*.toml, by default of `configs/results`, of the checkout or installed."""
    read = read_result_files(folder)
    shared = read.pop("files")
    systems: dict[str, System] = {}
    for group, content in read.items():
        for key, entry in content["systems"].items():
            entry["run"] = [fill(each, shared["commands"]) for each in entry.get("run", ())]
            systems[f"{group}/{key}"] = System(f"{group}/{key}", **entry)
    tables = [(group, entry) for group, content in read.items() for entry in content["tables"]]
    return PublishedResults(
        titles={group: content["title"] for group, content in read.items()},
        rows=[row for group, entry in tables for row in _rows(group, entry, systems)],
        files={key: Files(key, **entry) for key, entry in shared["files"].items()},
    )


def _rows(group: str, entry: dict[str, Any], systems: Mapping[str, System]) -> Iterator[LedgerRow]:
    """The rows of one table of a file."""
    one, numbers = entry.pop("system", ""), [entry.pop(k, {}) for k in ("published", "measured")]
    entry |= {"name": f"{group}/{entry['name']}", "columns": expand_columns(entry["columns"])}
    table = LedgerTable(**entry)
    for key in dict.fromkeys([*numbers[0], *numbers[1]]):
        owner = one or key
        system = systems[owner if "/" in owner else f"{group}/{owner}"]
        values = []
        for cells in (each.get(key, ()) for each in numbers):
            texts = cells.split() if isinstance(cells, str) else cells
            pairs = zip(tags_of(table, system), texts, strict=bool(texts))
            values.append({tag: Value(text) for tag, text in pairs if text not in ("", "-")})
        published, measured = values
        yield LedgerRow(system, table, published, measured, key if one else system.label)


def tags_of(table: LedgerTable, system: System) -> Sequence[str]:
    """Returns the columns of a table, with the metric that a system has in place of theirs."""
    if not system.metric:
        return table.columns
    return [f"{tag.rpartition('/')[0]}/{system.metric}" for tag in table.columns]
