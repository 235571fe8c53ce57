"""Retrieval and rating boards of a captioned dataset."""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.config import UserError
from xmodal.evals.boards.definitions import RATING_SIDES, RETRIEVAL_TASKS
from xmodal.evals.boards.make import explain_left_out, make_boards
from xmodal.evals.boards.types import Board, Labels
from xmodal.evals.evaluators.evaluator import (
    Options,
    Provenance,
    Split,
    describe_split,
    warn_of_part,
    with_similarity,
)
from xmodal.evals.inputs.galleries import check_coverage
from xmodal.evals.inputs.sources import Embeddings, RankedLists, ScoreMatrix, Source
from xmodal.evals.labels.annotations import Annotations, read_annotations, restrict
from xmodal.evals.ranking.rerank import make_reranker
from xmodal.evals.reports.compare import check_comparable, rated_tasks
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.results import BoardResult
from xmodal.evals.runner import evaluate_boards


@dataclasses.dataclass(frozen=True)
class BoardsOptions(Options):
    """Options of boards.

    Attributes:
      annotations: folder of released label files, see `labels.annotations.read_annotations`; ""
        for the labels that the dataset itself has.
      boards: names; None for every board that the labels allow.
      reranker: `{"name": ..., **options}`, see `ranking.rerank`.
      task: whose predictions the reranker takes.
    """

    annotations: str = ""
    boards: tuple[str, ...] | None = None
    reranker: Mapping[str, Any] | None = None
    task: str = ""


class BoardsEvaluator:
    """Computes boards, see `Evaluator`."""

    def __init__(
        self,
        options: BoardsOptions,
        labels: Labels,
        provenance: Provenance,
        *,
        where: str = "config.evals",
        mesh: Mesh | None = None,
    ) -> None:
        """Makes the boards.

        Args:
          options: of the evaluator.
          labels: of the split.
          provenance: of the labels.
          where: section of the options, for messages.
          mesh: devices over which galleries are spread.

        Raises:
          UserError: a board is unknown, or the labels allow none.
        """
        self.options, self.provenance = options, provenance
        self._labels, self._mesh = labels, mesh
        self._reranker = make_reranker(f"{where}.reranker", options.reranker)
        self.boards: Sequence[Board] = make_boards(labels, options.boards)
        if not self.boards:
            raise UserError(
                f"No board is named, or the labels of {options.annotations or labels.name} allow "
                "none."
            )

    @classmethod
    def of_split(
        cls,
        where: str,
        options: BoardsOptions,
        split: Split,
        sides: Collection[str],
        mesh: Mesh | None = None,
    ) -> "BoardsEvaluator":
        """Makes the boards of a split for a model with the given sides.

        Raises:
          UserError: see `__init__`; or no board compares the sides, or the released labels are of
            other items.
        """
        if not options.annotations:
            labels = _labels_of(split)
            evaluator = cls(options, labels, describe_split(split), where=where, mesh=mesh)
        else:
            ids = {"image": split.image_ids, "caption": split.caption_ids}
            labels, notes = read_labels(
                options.annotations, split.split, split.name, ids, partial=True
            )
            provenance = dataclasses.replace(
                describe_labels(labels, options.annotations), notes=notes, records=split.hashes
            )
            evaluator = cls(options, labels, provenance, where=where, mesh=mesh)
            evaluator.note_left_out()
        _check_sides(split.name, evaluator.boards, sides)
        return evaluator

    def note_left_out(self) -> None:
        """Adds a note for every reason why a board of the dataset was left out unasked."""
        if self.options.boards is not None:
            return
        reasons = explain_left_out(self._labels, self.boards)
        notes = [f"Left out {' and '.join(names)}: {reason}." for reason, names in reasons.items()]
        self.provenance = dataclasses.replace(
            self.provenance, notes=[*self.provenance.notes, *notes]
        )

    def check_comparable(self, other: StoredResults, rated: Collection[str] | None = None) -> None:
        """See `Evaluator`; `rated` names the rating tasks that will be correlated."""
        options = self.options
        check_comparable(other, self.boards, options.bootstrap_samples, options.seed, rated=rated)

    def run(self, source: Source) -> list[BoardResult]:
        """See `Evaluator`."""
        if isinstance(source, Embeddings):
            source = with_similarity(source, self.options.similarity)
        results = evaluate_boards(
            source,
            self._labels,
            self.boards,
            bootstrap_samples=self.options.bootstrap_samples,
            seed=self.options.seed,
            mesh=self._mesh,
            reranker=self._reranker,
            task=self.options.task,
        )
        _check_results(results, source.place)
        return results


def _labels_of(split: Split) -> Annotations:
    """The labels that a prepared dataset has: no lists, no folds."""
    return Annotations(
        name=split.name,
        split=split.split,
        image_ids=split.image_ids,
        caption_ids=split.caption_ids,
        caption_image_ids=split.caption_image_ids,
        ratings=split.ratings,
        lists={},
        categories=split.categories,
        caption_categories=split.caption_categories,
        partial=split.partial,
    )


def read_labels(
    folder: str | os.PathLike,
    split: str,
    place: str,
    ids: Mapping[str, np.ndarray] | None,
    *,
    partial: bool,
) -> tuple[Annotations, list[str]]:
    """Reads released labels for the items of a source.

    Args:
      folder: of the label files.
      split: of these labels.
      place: of the source, for messages.
      ids: of the source by kind, "image" and "caption"; None where the source has no item list.
      partial: whether the source may lack items of the split; the labels are then of those items
        that it has.

    Returns:
      The labels, and notes on items that play no part.

    Raises:
      UserError: the labels cannot be read, or the items are not those of the split.
    """
    labels = read_annotations(folder, split)
    if ids is None:
        return labels, []
    coverages = check_coverage(place, ids, labels, split=split, partial=partial)
    if partial:
        labels = restrict(labels, ids.get("image"), ids.get("caption"))
    return labels, [
        f"{each.extra:,} {each.kind}s of {place} are not of this split and play no part."
        for each in coverages
        if each.extra
    ]


def describe_labels(labels: Annotations, folder: str | os.PathLike) -> Provenance:
    """Returns the facts of released labels."""
    warnings = warn_of_part(labels.partial, labels.split)
    if labels.differences:
        warnings.append(
            f"NOT THE RELEASED LABELS: in {os.fspath(folder)}, "
            f"{'; '.join(labels.differences)}. The numbers compare with no published number; "
            "unless a part is meant, take the released files again."
        )
    return Provenance(
        title=f"{labels.name}, {labels.split} split",
        published=labels.split == "test" and not warnings,
        warnings=warnings,
    )


def rated_by(source: Source) -> set[str]:
    """Returns the rating tasks that a source can be correlated with."""
    if isinstance(source, RankedLists):
        return set()
    if isinstance(source, ScoreMatrix):
        return {task for task, (left, right, _) in RATING_SIDES.items() if left != right}
    return rated_tasks(source.sides)


def _check_sides(dataset: str, boards: Sequence[Board], sides: Collection[str]) -> None:
    """Refuses a dataset without a board that compares the sides of a model."""
    compared = {RETRIEVAL_TASKS[task] for board in boards for task in board.tasks}
    compared |= {pairs.modalities for board in boards for pairs in board.graded.values()}
    if not any(set(pair) <= set(sides) for pair in compared):
        raise UserError(
            f"There is a tower for {' and '.join(sides)} alone, which no board of {dataset} "
            f"compares: {', '.join(board.name for board in boards)}."
        )


def _check_results(results: Sequence[BoardResult], place: str) -> None:
    """Refuses results without a single number that judges the model."""
    reasons = set()
    for board in results:
        tasks = board.tasks.values()
        if board.correlations or any(task.values or task.has_median for task in tasks):
            return
        reasons |= set(board.skipped.values())
        reasons |= {reason for task in tasks for reason in task.missing.values()}
    raise UserError(
        f"{place} is not enough for any of {', '.join(board.name for board in results)}: "
        f"{'; '.join(sorted(reasons))}."
    )
