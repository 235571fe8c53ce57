"""A study as one SQLite file: items, questions, raters and their answers.

Every change is one transaction in a write-ahead log that is synced to disk, so a confirmed answer
survives a kill of the server and a power failure.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from xmodal.apps.annotate.questions import KINDS
from xmodal.core.config import read, setting
from xmodal.core.errors import UserError

_SCHEMA = (pathlib.Path(__file__).parent / "schema.sql").read_text(encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """Settings of a study.

    Attributes:
      kind: `cxc`, `eccv` or `preference`.
      dataset: dataset whose items are shown.
      split: split of the dataset.
      raters_per_item: number of raters who have to answer every question.
      lease_minutes: time from the last page until an unfinished unit may go to another rater.
      per_rater: largest number of units for one rater; None for no limit.
      pass_share: share of golden pairs that a rater has to get right in the qualification.
      numbers: whether sliders show the numbers 0 to 5, and take them as keys.
      groups: id of a caption of a preference study -> its groups.
      image_queries, caption_queries: ids of the queries of an ECCV study.
      id: id of this study, in the name of its cookie.
    """

    kind: str = setting("cxc", one_of=("cxc", "eccv", "preference"))
    dataset: str = ""
    split: str = "test"
    raters_per_item: int = setting(5, at_least=1)
    lease_minutes: float = setting(30.0, above=0)
    per_rater: int | None = setting(None, at_least=1)
    pass_share: float = setting(0.9, at_least=0, at_most=1)
    numbers: bool = False
    groups: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    image_queries: tuple[int, ...] = ()
    caption_queries: tuple[int, ...] = ()
    id: str = dataclasses.field(default_factory=lambda: secrets.token_hex(8))


@dataclasses.dataclass(frozen=True)
class StudyQuestion:
    """A question about two items.

    Attributes:
      kind: key of `KINDS`.
      left: id of the left caption or image.
      right: id of the right one.
      about: id of the caption above them.
      golden: the known answer, "yes" or "no".
      note: stored with the answers: a sampling method.
    """

    kind: str
    left: int
    right: int
    about: int | None = None
    golden: str | None = None
    note: str = ""

    @property
    def pair(self) -> str:
        """A string that is equal only for equal pairs, in either order where it means nothing."""
        ends: Iterable[int] = (self.left, self.right)
        ends = sorted(ends) if KINDS[self.kind].symmetric else ends
        about = () if self.about is None else (self.about,)
        return ":".join(map(str, (self.kind, *ends, *about)))


@dataclasses.dataclass(frozen=True)
class StudyUnit:
    """Questions that a rater gets together.

    Attributes:
      questions: questions in the order in which they are asked.
      test: whether it is the qualification, which every rater gets first.
      stage: units of a lower stage are assigned first.
      position: order within a stage, for units that equally many raters have finished.
    """

    questions: tuple[StudyQuestion, ...]
    test: bool = False
    stage: int = 0
    position: int = 0


class Proposal(NamedTuple):
    """A pair that a model proposes.

    Attributes:
      caption: id of the caption.
      image: id of the image.
      model: name of the model.
      direction: `i2t` or `t2i`.
      rank: place of the item among those that the model finds for the query, starting at 1.
    """

    caption: int
    image: int
    model: str
    direction: str
    rank: int

    @property
    def pair(self) -> tuple[int, int]:
        """The caption and the image."""
        return self.caption, self.image


class StudyFile:
    """An existing study; safe for concurrent use by several threads and processes."""

    def __init__(self, path: str | os.PathLike) -> None:
        """Opens a study."""
        self.path = pathlib.Path(path)
        self.name = self.path.stem
        self._threads = threading.local()
        if not self.path.is_file():
            raise UserError(f"There is no study {path}; run python -m xmodal annotate make.")
        try:
            ((text,),) = self.rows("SELECT settings FROM study")
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} cannot be read as a study: {error}.") from error
        self.settings = read(StudySettings, str(path), json.loads(text))

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection."""
        if not hasattr(self._threads, "connection"):
            self._threads.connection = _connect(self.path)
        return self._threads.connection

    def read_proposals(self) -> list[Proposal]:
        """Returns what the models propose, in the order of `make`."""
        return [Proposal(*row) for row in self.rows("SELECT * FROM proposals ORDER BY rowid")]

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """Returns what a query finds."""
        with self.reading() as connection:
            return connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def reading(self, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
        """This thread's connection, in a transaction that sees a single state of the file."""
        with self.connection as connection:  # It commits, or rolls back if there is an error.
            connection.execute(begin)
            yield connection

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection, in a transaction whose changes are synced at the end.

        An error undoes all of them.
        """
        with self.reading("BEGIN IMMEDIATE") as connection:
            yield connection


def _connect(path: pathlib.Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def create(
    path: str | os.PathLike,
    settings: StudySettings,
    units: Iterable[StudyUnit],
    captions: Iterable[tuple[int, str, int]],
    pictures: Iterable[tuple[int, str, bytes]],
    proposals: Iterable[Proposal] = (),
) -> None:
    """Writes a new study atomically; units are numbered in the given order.

    Args:
      path: the new file.
      settings: the settings.
      units: the questions.
      captions: id, text and image of every caption of the split.
      pictures: id, media type and file content of every image that is shown.
      proposals: what the models propose.
    """
    path, units = pathlib.Path(path), list(units)
    check_new_file(path)
    tables: dict[str, Iterable[tuple[object, ...]]] = {
        "study": [(json.dumps(dataclasses.asdict(settings)),)],
        "captions": captions,
        "images": pictures,
        "units": [(n, x.test, x.stage, x.position, 0) for n, x in enumerate(units, 1)],
        "questions": [
            (n, place, x.kind, x.left, x.right, x.about, x.pair, x.golden, x.note)
            for n, unit in enumerate(units, 1)
            for place, x in enumerate(unit.questions)
        ],
        "proposals": proposals,
    }
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        temporary = pathlib.Path(folder, path.name)
        with contextlib.closing(_connect(temporary)) as connection:
            connection.executescript(f"BEGIN; {_SCHEMA}")
            for name, rows in tables.items():
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    connection.execute(f"INSERT INTO {name} VALUES ({marks})", row)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        temporary.rename(path)


def check_new_file(path: str | os.PathLike) -> None:
    """Raises an error if a study cannot be created at a path."""
    path = pathlib.Path(path)
    if path.exists() or not path.parent.is_dir():
        raise UserError(f"{path} exists, or its folder does not: use another --study.")
