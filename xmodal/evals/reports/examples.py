"""Examples: a page of queries that rules select, with the items that they find.

Each rule is a condition on the ranks of one direction. "Rank" is that of the best positive,
starting at 1.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np

from xmodal.core.page import Group, Page, PageItem, PageRow, Section
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.split import name_image
from xmodal.evals.labels.types import Benchmark
from xmodal.evals.reports.evaluation import Evaluation
from xmodal.evals.reports.queries import FIXED
from xmodal.evals.reports.results import DirectionResult, Result, name_tag
from xmodal.evals.scores.score_rows import Scores
from xmodal.evals.scores.sources import Embeddings, ScoreMatrix

_SHOWN = 5  # Items per row.
_RULES = {
    "worst rank": "Queries whose best positive is ranked lowest.",
    "changed": "Queries with the largest ratio between the ranks of the two models.",
    "tied": "The best positive ties with another item, so its rank depends on their order.",
    FIXED: "The same queries for all models on these labels.",
}
_HOW_TO_READ = (
    f"Every query with the first {_SHOWN} items that it finds, and the first {_SHOWN} of its other "
    "positives. Positives are framed; below every item are its rank, its score, the benchmarks "
    "where it is a positive, and human ratings of the pair."
)


@dataclasses.dataclass(frozen=True)
class Pick:
    """The queries of one rule and one direction.

    Attributes:
      rule: "worst rank", "changed", "tied" or `FIXED`.
      direction: a name in `DIRECTIONS`.
      benchmark: benchmark with the positives.
      queries: int64 [P], ids.
      ranks: int32 [P], items ahead of the best positive.
      others: int32 [P], for "changed" the ranks of the other model.
    """

    rule: str
    direction: str
    benchmark: str
    queries: np.ndarray
    ranks: np.ndarray
    others: np.ndarray | None = None

    @property
    def title(self) -> str:
        """The rule with its direction and benchmark."""
        return f"{self.rule.capitalize()}: {name_tag(f'{self.benchmark}/{self.direction}')}"


def make_example_page(
    evaluator: BenchmarksEvaluator,
    source: Embeddings | ScoreMatrix,
    results: Sequence[Result],
    count: int,
    name: str,
    other: Evaluation | None,
) -> Page:
    """Returns the page.

    Args:
      evaluator: evaluator whose benchmarks were evaluated.
      source: embeddings, or a matrix of scores.
      results: results of the evaluator on these benchmarks.
      count: largest number of queries per rule, direction and benchmark.
      name: name of the model.
      other: results of another model on the same benchmarks.
    """
    theirs, picks = {each.name: each.directions for each in other.results} if other else {}, []
    for direction, benchmark, result in ranked_directions(evaluator.benchmarks, results):
        ids, rank, old = result.query_ids, np.asarray(result.rank), None
        # Rule -> the queries, and keys, of which the least are shown.
        rules = {"worst rank": (rank > 0, -rank), "tied": (np.asarray(result.tied), rank)}
        before = theirs.get(benchmark, {}).get(direction)
        if before is not None and before.rank is not None:
            old = before.rank[Positions("query", before.query_ids)(ids)]
            rules["changed"] = rank != old, -np.abs(np.log1p(rank) - np.log1p(old))
        for rule in _RULES:
            chosen, keys = rules.get(rule, (np.zeros(0), rank))
            rows = np.flatnonzero(chosen)
            rows = rows[np.lexsort((ids[rows], keys[rows]))][:count]
            others = old[rows] if rule == "changed" and old is not None else None
            if len(rows):
                picks.append(Pick(rule, direction, benchmark, ids[rows], rank[rows], others))
    picks += pick_fixed(evaluator.benchmarks, results, _SHOWN)[:2]  # Images to texts, and back.
    groups = make_groups(evaluator, evaluator.open_rankings(source), picks)
    notes = [*evaluator.provenance.warnings, _HOW_TO_READ]
    if not evaluator.split.has_pictures:
        notes.append("The dataset has no pictures; images are named by their first caption.")
    return Page(f"{name}: examples of {evaluator.provenance.title}", groups, notes)


def pick_fixed(
    benchmarks: Sequence[Benchmark], results: Sequence[Result], count: int
) -> list[Pick]:
    """Returns evenly spaced queries for every direction, the same for all models on these labels.

    Args:
      benchmarks: the evaluated benchmarks; those whose queries are compared only with a fold of the
        gallery are ignored.
      results: their results.
      count: largest number of queries per direction.
    """
    picks = []
    for direction, name, result in ranked_directions(benchmarks, results):
        rows = np.argsort(result.query_ids)[space_evenly(count, len(result.query_ids))]
        ids, rank = result.query_ids[rows], np.asarray(result.rank)[rows]
        picks.append(Pick(FIXED, direction, name, ids, rank))
    return picks


def space_evenly(count: int, total: int) -> np.ndarray:
    """Returns evenly spaced positions below `total`, int64 [min(count, total)]."""
    count = min(count, total)
    return (2 * np.arange(count) + 1) * total // (2 * max(count, 1))


def ranked_directions(
    benchmarks: Sequence[Benchmark], results: Sequence[Result]
) -> Iterator[tuple[str, str, DirectionResult]]:
    """Yields directions, their main benchmark, and its result, where positives and ranks are known.

    The main benchmark is the one with the most labels, which calls the fewest right answers wrong.
    """
    found = {result.name: result.directions for result in results}
    for direction in DIRECTIONS:
        widths = {
            each.name: (len(result.query_ids), len(cast(Ragged, labels.positives).values))
            for each in benchmarks
            if (result := found[each.name].get(direction)) and result.rank is not None
            if (labels := each.directions[direction]).folds is None
        }
        if widths:
            main = max(widths, key=widths.__getitem__)
            yield direction, main, found[main][direction]


def make_groups(
    evaluator: BenchmarksEvaluator, rankings: Callable[[str], Scores], picks: Sequence[Pick]
) -> list[Group]:
    """Returns a section for every query of every pick, see `make_example_page`.

    `rankings` has the scores of a direction, see `BenchmarksEvaluator.open_rankings`.
    """
    sections, rankings = _Sections(evaluator), functools.cache(rankings)
    return [
        Group(pick.title, [*sections(pick, rankings(pick.direction))], _RULES.get(pick.rule, ""))
        for pick in picks
    ]


class _Sections:
    """Makes sections of queries and items; a caption has the picture of its image."""

    def __init__(self, evaluator: BenchmarksEvaluator) -> None:
        self._benchmarks, self._split = evaluator.benchmarks, (split := evaluator.split)
        self._ids = {"image": evaluator.labels.image_ids, "text": evaluator.labels.caption_ids}
        captions = zip(split.caption_image_ids.tolist(), split.caption_texts, strict=True)
        self._captions = dict(zip(split.caption_ids.tolist(), captions, strict=True))
        self._first = dict(reversed(self._captions.values()))
        self._picture = functools.cache(self._read_picture)

    def __call__(self, pick: Pick, ranking: Scores) -> Iterator[Section]:
        """Yields the sections of a pick's queries."""
        modality, other_modality = DIRECTIONS[pick.direction]
        rows = Positions("query", self._ids[modality])(pick.queries)
        scores = np.array(ranking.rows(rows)) if len(rows) else np.empty((0, 0))
        for number, (row, of_row) in enumerate(zip(rows, scores, strict=True)):
            if modality == other_modality:
                of_row[row] = -np.inf
            scored = ranking.find_scored(np.full(len(of_row), row), np.arange(len(of_row)))
            title = self._name(modality, pick.queries[number])
            title += f": rank {pick.ranks[number] + 1:,} of {np.sum(~np.isneginf(of_row)):,}"
            if pick.others is not None:
                title += f", of the other model {pick.others[number] + 1:,}"
            query = self._show(modality, pick.queries[number])
            if pick.direction == "t2i":  # The image of the query is an answer.
                query = dataclasses.replace(query, picture=None)
            yield Section(title, self._find_items(pick, int(row), of_row, scored), query)

    def _find_items(
        self, pick: Pick, row: int, scores: np.ndarray, scored: np.ndarray
    ) -> list[PageRow]:
        """The first items of a query, and its positives farther down.

        Args:
          pick: names the direction, and the benchmark of the positives.
          row: position of the query.
          scores: scores of all items, float32 [N].
          scored: whether these are more than ranks, bool [N], see `Scores.find_scored`.
        """
        order = np.argsort(-scores, kind="stable")
        rank_of = np.argsort(order) + 1
        positives = {
            each.name: labels.positives.expand(np.array([row]))[1]
            for each in self._benchmarks
            if (labels := each.directions.get(pick.direction)) is not None
            and isinstance(labels.positives, Ragged)
        }
        own, modality = positives[pick.benchmark], DIRECTIONS[pick.direction][1]
        first, missed = np.split(order, [min(_SHOWN, len(order) - np.isneginf(scores).sum())])
        missed = missed[np.isin(missed, own)]
        ratings = self._find_ratings(pick.direction, row)

        def show(item: int) -> PageItem:
            of_item = [name for name, each in positives.items() if item in each]
            score = f"{scores[item]:.4f}" if scored[item] else "not scored"
            notes = [f"rank {rank_of[item]:,}", score, *ratings.get(int(item), ())]
            mark = f"positive of {', '.join(of_item)}" if of_item else ""
            if pick.benchmark not in of_item:
                notes, mark = [*notes, *filter(None, [mark])], ""
            return self._show(modality, self._ids[modality][item], notes, mark)

        rows = [PageRow([show(item) for item in first], "Found first")]
        if len(missed):
            title = f"Positives farther down: {len(missed):,} of {len(own):,}"
            rows.append(PageRow([show(item) for item in missed[:_SHOWN]], title))
        return rows

    def _find_ratings(self, direction: str, row: int) -> dict[int, list[str]]:
        """Human ratings of a query with items, by position of the item.

        SIS rates thousands of pairs in both orders; either score may make a pair a positive.
        """
        found: dict[int, list[str]] = {}
        rated = [each.graded for each in self._benchmarks if direction in each.directions]
        for name, pairs in {name: x for graded in rated for name, x in graded.items()}.items():
            forward = pairs.modalities, pairs.left, pairs.right
            for ends, own, items in (forward, (pairs.modalities[::-1], pairs.right, pairs.left)):
                for at in np.flatnonzero(own == row) if ends == DIRECTIONS[direction] else ():
                    rating = f"rated {pairs.scores[at]:.2f} ({name})"
                    found.setdefault(int(items[at]), []).append(rating)
        return found

    def _show(
        self, modality: str, item_id: int, notes: Sequence[str] = (), mark: str = ""
    ) -> PageItem:
        image, text = self._captions[int(item_id)] if modality == "text" else (int(item_id), "")
        picture, caption = self._picture(image), self._first.get(image, "")
        alt = name_image(self._split, image)
        if modality == "image":
            text = alt + f', "{caption}"' * bool(caption) if picture is None else ""
            alt += f": {caption}" * bool(caption)
        return PageItem(text, picture, alt, notes=notes, mark=mark)

    def _name(self, modality: str, item_id: int) -> str:
        """The name of an item in a title; a caption of a known file is named by it."""
        if "picture" not in self._split.labels:
            return f"{KINDS[modality].capitalize()} {item_id}"
        if modality == "image":
            return name_image(self._split, item_id)
        return f"Caption of {name_image(self._split, self._captions[int(item_id)][0])}"

    def _read_picture(self, image: int) -> bytes | None:
        rows = np.flatnonzero(self._split.image_ids == image)
        if not self._split.has_pictures or not len(rows):
            return None
        (picture,) = self._split.pictures(rows)
        return picture
