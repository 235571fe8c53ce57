"""A finished evaluation: its numbers, its report and its files, whatever was judged."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.evals.reports.compare import Difference, compare, flatten, format_comparison
from xmodal.evals.reports.files import format_json, write_files
from xmodal.evals.reports.report import format_report
from xmodal.evals.reports.store import RANKS, StoredResults, load_ranks, pack_ranks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.results import BoardResult, TaskResult

# Of a hash in the report; all of it is in boards.json.
_DIGITS = 16
_COMPARISON = ("comparison.json", "comparison.md")
_NOTE_ON_CORRELATIONS = (
    "Intervals of correlations and their ± are of the protocol's samples, one pair per query. "
    "Where queries have many pairs, they are too wide: up to six times in a simulation."
)


def warn_of_part(partial: str, split: str) -> list[str]:
    """The warning of an evaluation on a part of a split; none for the whole split, ""."""
    if not partial:
        return []
    return [
        f"PARTIAL: {partial} of the {split} split. Numbers among fewer items are higher; they "
        "compare with no published number."
    ]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """All that was found of one model.

    Attributes:
      name: of the model, its row in the tables.
      title: names dataset and split.
      results: one per board.
      similarity: by which items were ranked; "scores" or "rankings" where those were given.
      samples: of every bootstrap.
      seed: of every bootstrap.
      published: whether the papers' rows stand beside ours.
      warnings: what to know before any number.
      notes: other facts.
      records: of the prepared datasets that were evaluated, the hash of every split by its name.
      trained_on: the same of the model's training data, if it is known.
    """

    name: str
    title: str
    results: Sequence[BoardResult]
    similarity: str
    samples: int = 1000
    seed: int = 0
    published: bool = False
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    records: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trained_on: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def metrics(self) -> dict[str, float]:
        """Tag -> number, with 95 % intervals; see `summary.summarize`."""
        return summarize(self.results, intervals=True, samples=self.samples, seed=self.seed)

    def report(self) -> str:
        """The tables in Markdown, see `report.format_report`."""
        return format_report(
            {self.name: self.metrics},
            title=self.title,
            published=self.published,
            boards=self.results,
            warnings=self.warnings,
            notes=[
                f"Similarity: {self.similarity}. Intervals: 95 %, from {self.samples:,} bootstrap "
                f"samples of the images, or of half of the rated queries; seed {self.seed}.",
                *([_NOTE_ON_CORRELATIONS] if any(b.correlations for b in self.results) else []),
                *self.notes,
                *_name_records("Evaluated", self.records),
                *_name_records("Trained on", self.trained_on),
            ],
        )

    def compare(self, other: epath.PathLike | StoredResults) -> dict[str, Difference]:
        """Paired differences to another model on the same labels.

        Args:
          other: its folder or `ranks.npz` in it, or what `store.load_ranks` made of it.

        Raises:
          UserError: the file cannot be read, or belongs to other labels.
        """
        ours = StoredResults(self.results, self.similarity, self.seed)
        theirs = other if isinstance(other, StoredResults) else load_ranks(other)
        return compare(ours, theirs, samples=self.samples, seed=self.seed)

    def save(
        self,
        folder: epath.PathLike,
        *,
        comparison: Mapping[str, Difference] | None = None,
        other: str = "theirs",
        extra: Mapping[str, float] | None = None,
    ) -> None:
        """Writes `ranks.npz`, `boards.json`, `report.md` and, last, `metrics.json`.

        Everything is computed before the first of them is written, see `files.write_files`.

        Args:
          folder: made if it is not there.
          comparison: from `compare`; written to `comparison.json` and `comparison.md`. Without
            it, those of an earlier evaluation are removed.
          other: name of the other model.
          extra: numbers at the head of `metrics.json`, such as the step.

        Raises:
          UserError: the folder cannot be written.
        """
        contents = {
            RANKS: pack_ranks(self.results, similarity=self.similarity, seed=self.seed),
            "boards.json": format_json(
                {board.name: self._describe(board) for board in self.results}
            ),
            "report.md": self.report(),
        }
        if comparison is not None:
            texts = (
                format_json(flatten(comparison)),
                format_comparison(comparison, name=self.name, other=other),
            )
            contents |= zip(_COMPARISON, texts, strict=True)
        contents["metrics.json"] = format_json({**(extra or {}), **self.metrics})
        write_files(folder, contents, stale=set(_COMPARISON) - set(contents))

    def _describe(self, board: BoardResult) -> dict[str, Any]:
        """A board for `boards.json`."""
        return {
            "definition": board.definition,
            "label_hash": board.label_hash,
            "similarity": self.similarity,
            "bootstrap": {"samples": self.samples, "seed": self.seed},
            "galleries": {task: _count(result) for task, result in board.tasks.items()},
            "records": dict(self.records),
            "trained_on": dict(self.trained_on),
            **_lacking(board),
        }


def _name_records(what: str, hashes: Mapping[str, str]) -> list[str]:
    """A sentence on the records behind the numbers, if anything is known of them."""
    if not hashes:
        return []
    named = ", ".join(f"{name} `{digits[:_DIGITS]}`" for name, digits in hashes.items())
    return [f"{what}: {named} (hash of the records)."]


def _count(result: TaskResult) -> dict[str, int | None]:
    """What a task ranked; ties are null where they are unknown."""
    return {
        "queries": len(result.query_ids),
        "gallery": int(result.gallery),
        "skipped_queries": int(result.skipped),
        "tied_queries": None if result.tied is None else int(result.tied.sum()),
    }


def _lacking(board: BoardResult) -> dict[str, dict[str, str]]:
    """What could not be computed, with the reasons."""
    return {
        "skipped": dict(board.skipped),
        "missing": {
            f"{task}/{metric}": reason
            for task, result in board.tasks.items()
            for metric, reason in result.missing.items()
        },
    }
