"""A finished evaluation: its numbers, its report and its files, whatever was judged."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etils import epath

from xmodal.evals.reports.compare import Difference, compare, flatten, format_comparison
from xmodal.evals.reports.files import format_json, write_files
from xmodal.evals.reports.report import format_report
from xmodal.evals.reports.store import StoredResults, load_ranks, save_ranks
from xmodal.evals.reports.summary import summarize
from xmodal.evals.results import BoardResult


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
                *self.notes,
            ],
        )

    def compare(self, other: epath.PathLike | StoredResults) -> dict[str, Difference]:
        """Paired differences to another model on the same labels.

        Args:
          other: its `ranks.npz`, or what `store.load_ranks` made of it.

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
          comparison: from `compare`; written to `comparison.json` and `comparison.md`.
          other: name of the other model.
          extra: numbers at the head of `metrics.json`, such as the step.
        """
        boards = {board.name: _describe(board, self.similarity) for board in self.results}
        contents: dict[str, str | Callable[[epath.Path], None]] = {
            "ranks.npz": self._save_ranks,
            "boards.json": format_json(boards),
            "report.md": self.report(),
        }
        if comparison is not None:
            contents["comparison.json"] = format_json(flatten(comparison))
            contents["comparison.md"] = format_comparison(comparison, name=self.name, other=other)
        contents["metrics.json"] = format_json({**(extra or {}), **self.metrics})
        write_files(folder, contents)

    def _save_ranks(self, path: epath.Path) -> None:
        save_ranks(path, self.results, similarity=self.similarity, seed=self.seed)


def _describe(board: BoardResult, similarity: str) -> dict[str, Any]:
    """A board for `boards.json`."""
    return {
        "definition": board.definition,
        "label_hash": board.label_hash,
        "similarity": similarity,
        "galleries": {
            task: {"queries": len(result.query_ids), "gallery": result.gallery}
            for task, result in board.tasks.items()
        },
        "skipped": dict(board.skipped),
        "missing": {
            f"{task}/{metric}": reason
            for task, result in board.tasks.items()
            for metric, reason in result.missing.items()
        },
    }
