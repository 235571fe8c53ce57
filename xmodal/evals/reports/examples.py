"""Examples: a page of queries that rules select, with the items that they find.

Each rule is a condition on the ranks of one direction. "Rank" is that of the best positive,
starting at 1; a query is right by a benchmark if its rank is 1.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.page import Group, Page, PageItem, PageRow, Section
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator, BenchmarksOptions
from xmodal.evals.evaluators.evaluator import Options
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.split import name_image
from xmodal.evals.labels.types import Benchmark
from xmodal.evals.reports.results import DirectionResult, Result
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.score_rows import Scores
from xmodal.evals.scores.sources import Embeddings, ScoreMatrix

_SHOWN = 5  # Items per row.
_ARROWS = {"i2t": "image to text", "t2i": "text to image"}
_ARROWS |= {"t2t": "text to text", "i2i": "image to image"}
_HOW_TO_READ = (
    f"Every query with the first {_SHOWN} items that it finds, and the first {_SHOWN} of its other "
    "positives. Positives are framed; below every item are its rank, its score, the benchmarks "
    "where it is a positive, and human ratings of the pair."
)


@dataclasses.dataclass(frozen=True)
class Pick:
    """The queries of one rule and one direction.

    Attributes:
      rule: "worst rank", "changed", "right by A, wrong by B" or "tied".
      note: a sentence about the rule.
      direction: a name in `DIRECTIONS`.
      benchmark: benchmark with the positives.
      queries: int64 [P], ids.
      ranks: int32 [P], items ahead of the best positive.
      others: int32 [P], for "changed" the ranks of the other model.
    """

    rule: str
    note: str
    direction: str
    benchmark: str
    queries: np.ndarray
    ranks: np.ndarray
    others: np.ndarray | None = None

    @property
    def title(self) -> str:
        """The rule with its direction, and its benchmark if the rule does not name it."""
        benchmark = "" if self.benchmark in self.rule else f", {self.benchmark}"
        return f"{self.rule[0].upper()}{self.rule[1:]}: {_ARROWS[self.direction]}{benchmark}"


def check_examples(count: int, options: Mapping[str, Options]) -> None:
    """Raises an error if no evaluator has queries for examples; `options` are by name."""
    if count and not any(isinstance(each, BenchmarksOptions) for each in options.values()):
        kinds = ", ".join(f"{name} ({each.type})" for name, each in options.items())
        raise UserError(
            f"Examples are queries of an evaluator of type benchmarks; there is {kinds}."
        )


def make_example_page(
    evaluator: BenchmarksEvaluator,
    source: Embeddings | ScoreMatrix,
    results: Sequence[Result],
    split: Items,
    count: int,
    name: str,
    other: StoredResults | None,
) -> Page:
    """Returns the page.

    Args:
      evaluator: evaluator whose benchmarks were evaluated.
      source: embeddings, or a matrix of scores.
      results: results of the evaluator on these benchmarks.
      split: has the captions, and pictures if there are any.
      count: largest number of queries per rule, direction and benchmark.
      name: name of the model.
      other: results of another model on the same benchmarks.
    """
    picks = _pick_examples(evaluator.benchmarks, results, count, other)
    rankings = functools.cache(evaluator.open_rankings(source))
    groups = make_groups(evaluator, rankings, picks, split)
    notes = [*evaluator.provenance.warnings, _HOW_TO_READ]
    if not split.has_pictures:
        notes.append("The dataset has no pictures; images are named by their first caption.")
    if not groups:
        notes.append("No rule selects any query.")
    return Page(f"{name}: examples of {evaluator.provenance.title}", groups, notes)


def _pick_examples(
    benchmarks: Sequence[Benchmark],
    results: Sequence[Result],
    count: int,
    other: StoredResults | None,
) -> list[Pick]:
    """The queries of every rule that selects any; see `make_example_page` for arguments."""
    theirs = {each.name: each.directions for each in other.results} if other else {}
    picks = []
    for direction, main, ranked in _ranked_directions(benchmarks, results):
        ranks = {name: _ranks_by_query(each) for name, each in ranked.items()}
        before = theirs.get(main, {}).get(direction)
        old = {} if before is None else _ranks_by_query(before)
        for rule, note, name, keys in _find_queries(main, ranks, ranked[main].tied, old):
            if queries := sorted(keys, key=lambda query: (keys[query], query))[:count]:
                found = np.array([ranks[name][query] for query in queries])
                others = np.array([old[query] for query in queries]) if rule == "changed" else None
                picks.append(Pick(rule, note, direction, name, np.array(queries), found, others))
    return picks


def _find_queries(
    main: str, ranks: Mapping[str, dict[int, int]], tied: np.ndarray | None, old: dict[int, int]
) -> Iterator[tuple[str, str, str, Mapping[int, float]]]:
    """Yields rules with their notes, benchmarks, and query -> key, of which the least are shown.

    Args:
      main: the main benchmark.
      ranks: benchmark -> query -> items ahead of its best positive.
      tied: whether the queries of the main benchmark tie, bool [Q]; None if unknown.
      old: the ranks of another model by the main benchmark.
    """
    wide, own = ranks[main], next(iter(ranks))
    note = "Queries whose best positive is ranked lowest."
    yield "worst rank", note, main, {query: -rank for query, rank in wide.items() if rank}
    both = {query: (rank, old[query]) for query, rank in wide.items() if query in old}
    ratios = {q: -abs(math.log1p(a) - math.log1p(b)) for q, (a, b) in both.items() if a != b}
    note = "Queries with the largest ratio between the ranks of the two models."
    yield "changed", note, main, ratios
    for right, wrong in itertools.permutations(ranks, 2):
        if own in (right, wrong):
            note = f"The first item is a positive of {right} but not of {wrong}; ranks are those "
            keys = {q: -x for q, x in ranks[wrong].items() if x and ranks[right].get(q) == 0}
            yield f"right by {right}, wrong by {wrong}", f"{note}of {wrong}.", wrong, keys
    note = "The best positive ties exactly with another item, so its rank depends on the tie rule."
    yield "tied", note, main, dict(itertools.compress(wide.items(), [] if tied is None else tied))


def _ranks_by_query(result: DirectionResult) -> dict[int, int]:
    """Query id -> items ahead of its best positive, if known."""
    if result.rank is None:
        return {}
    return dict(zip(result.query_ids.tolist(), result.rank.tolist(), strict=True))


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
    for direction, main, ranked in _ranked_directions(benchmarks, results):
        ranks = _ranks_by_query(ranked[main])
        ids = np.sort(ranked[main].query_ids)[space_evenly(count, len(ranks))]
        found = np.array([ranks[query] for query in ids.tolist()])
        picks.append(Pick("fixed", "", direction, main, ids, found))
    return picks


def space_evenly(count: int, total: int) -> np.ndarray:
    """Returns evenly spaced positions below `total`, int64 [min(count, total)]."""
    count = min(count, total)
    return (2 * np.arange(count) + 1) * total // (2 * max(count, 1))


def _ranked_directions(
    benchmarks: Sequence[Benchmark], results: Sequence[Result]
) -> Iterator[tuple[str, str, dict[str, DirectionResult]]]:
    """Yields directions, their main benchmark, and the results where positives and ranks are known.

    The main benchmark is the one with the most labels, which calls the fewest right answers wrong.
    """
    found = {result.name: result.directions for result in results}
    for direction in DIRECTIONS:
        ranked, widths = {}, {}
        for benchmark in benchmarks:
            labels = benchmark.directions.get(direction)
            result = found[benchmark.name].get(direction)
            if labels is None or result is None or result.rank is None or labels.folds is not None:
                continue
            if isinstance(labels.positives, Ragged):
                ranked[benchmark.name] = result
                widths[benchmark.name] = len(result.query_ids), len(labels.positives.values)
        if ranked:
            yield direction, max(widths, key=widths.__getitem__), ranked


def make_groups(
    evaluator: BenchmarksEvaluator,
    rankings: Callable[[str], Scores],
    picks: Sequence[Pick],
    split: Items,
) -> list[Group]:
    """Returns a section for every query of every pick, see `make_example_page`.

    `rankings` has the scores of a direction, see `BenchmarksEvaluator.open_rankings`; it is called
    once for every pick.
    """
    shown, groups = _ShownItems(split), []
    ids = {"image": evaluator.labels.image_ids, "text": evaluator.labels.caption_ids}
    for pick in picks:
        modality, other_modality = DIRECTIONS[pick.direction]
        gallery, ranking = ids[other_modality], rankings(pick.direction)
        rows = Positions("query", ids[modality])(pick.queries)
        scores = np.array(ranking.rows(rows)) if len(rows) else np.empty((0, len(gallery)))
        if modality == other_modality:
            scores[np.arange(len(rows)), rows] = -np.inf
        sections = []
        for number, (row, of_row) in enumerate(zip(rows, scores, strict=True)):
            scored = ranking.find_scored(np.full(len(gallery), row), np.arange(len(gallery)))
            title = shown.name(modality, pick.queries[number])
            title += f": rank {pick.ranks[number] + 1:,} of {np.sum(~np.isneginf(of_row)):,}"
            if pick.others is not None:
                title += f", of the other model {pick.others[number] + 1:,}"
            query = shown(modality, pick.queries[number])
            if pick.direction == "t2i":  # The image of the query is an answer.
                query = dataclasses.replace(query, picture=None)
            found = _show_items(
                evaluator.benchmarks, pick, int(row), of_row, scored, gallery, shown
            )
            sections.append(Section(title, found, query))
        groups.append(Group(pick.title, sections, pick.note))
    return groups


def _show_items(
    benchmarks: Sequence[Benchmark],
    pick: Pick,
    row: int,
    scores: np.ndarray,
    scored: np.ndarray,
    gallery: np.ndarray,
    shown: "_ShownItems",
) -> list[PageRow]:
    """The first items of a query, and its positives farther down.

    Args:
      benchmarks: benchmarks whose positives and ratings are named.
      pick: names the direction, and the benchmark of the positives.
      row: position of the query.
      scores: scores of all items, float32 [N].
      scored: whether these are more than ranks, bool [N], see `Scores.find_scored`.
      gallery: ids of the items.
      shown: items by modality and id.
    """
    order = np.argsort(-scores, kind="stable")
    rank_of = np.argsort(order) + 1
    positives = {
        each.name: labels.positives.expand(np.array([row]))[1]
        for each in benchmarks
        if (labels := each.directions.get(pick.direction)) is not None
        and isinstance(labels.positives, Ragged)
    }
    own = positives[pick.benchmark]
    first = order[: min(_SHOWN, len(order) - np.isneginf(scores).sum())]
    missed = np.setdiff1d(own, first)
    missed = missed[np.argsort(rank_of[missed])]
    ratings = _find_ratings(benchmarks, pick.direction, row)

    def show(item: int) -> PageItem:
        of_item = [name for name, each in positives.items() if item in each]
        score = f"{scores[item]:.4f}" if scored[item] else "not scored"
        notes = [f"rank {rank_of[item]:,}", score, *ratings.get(int(item), ())]
        mark = f"positive of {', '.join(of_item)}" if of_item else ""
        if mark and pick.benchmark not in of_item:
            notes, mark = [*notes, mark], ""
        return shown(DIRECTIONS[pick.direction][1], gallery[item], notes, mark)

    rows = [PageRow([show(item) for item in first], "Found first")]
    if len(missed):
        title = f"Positives farther down: {len(missed):,} of {len(own):,}"
        rows.append(PageRow([show(item) for item in missed[:_SHOWN]], title))
    return rows


def _find_ratings(
    benchmarks: Sequence[Benchmark], direction: str, row: int
) -> dict[int, list[str]]:
    """Human ratings of a query with items, by position of the item.

    SIS rates thousands of pairs in both orders; either score may make a pair a positive.
    """
    found: dict[int, list[str]] = {}
    rated = [each.graded for each in benchmarks if direction in each.directions]
    for name, pairs in {name: x for graded in rated for name, x in graded.items()}.items():
        forward = pairs.modalities, pairs.left, pairs.right
        for ends, own, items in (forward, (pairs.modalities[::-1], pairs.right, pairs.left)):
            for at in np.flatnonzero(own == row) if ends == DIRECTIONS[direction] else ():
                rating = f"rated {pairs.scores[at]:.2f} ({name})"
                found.setdefault(int(items[at]), []).append(rating)
    return found


class _ShownItems:
    """Images and captions of a split by id; a caption has the picture of its image."""

    def __init__(self, split: Items) -> None:
        self._split = split
        self._images = Positions("image", split.image_ids)
        self._captions = Positions("caption", split.caption_ids)
        self._first = dict(
            zip(split.caption_image_ids[::-1].tolist(), split.caption_texts[::-1], strict=True)
        )
        self._picture = functools.cache(self._read_picture)

    def __call__(
        self, modality: str, item_id: int, notes: Sequence[str] = (), mark: str = ""
    ) -> PageItem:
        """Returns the item of a modality, "image" or "text", that has an id."""
        text, image = "", int(item_id)
        if modality == "text":
            (at,) = self._captions(np.array([item_id]))
            text, image = self._split.caption_texts[at], int(self._split.caption_image_ids[at])
        picture, caption = self._picture(image), self._first.get(image, "")
        alt = name_image(self._split, image)
        if modality == "image" and picture is None:
            text = alt + (f', "{caption}"' if caption else "")
        if modality == "image" and caption:
            alt += f": {caption}"
        return PageItem(text, picture, alt, notes=notes, mark=mark)

    def name(self, modality: str, item_id: int) -> str:
        """The name of an item in a title; a caption of a known file is named by it."""
        if "picture" not in self._split.labels:
            return f"{'Image' if modality == 'image' else 'Caption'} {item_id}"
        if modality == "image":
            return name_image(self._split, item_id)
        (at,) = self._captions(np.array([item_id]))
        return f"Caption of {name_image(self._split, self._split.caption_image_ids[at])}"

    def _read_picture(self, image: int) -> bytes | None:
        (row,) = self._images.find(np.array([image]))
        if not self._split.has_pictures or row < 0:
            return None
        (picture,) = self._split.pictures(np.array([row]))
        return picture
