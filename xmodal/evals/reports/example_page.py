"""Examples: a page of selected queries with their top items, and a few captions for the report."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.page import Group, Page, PageItem, PageRow, Section
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator, BenchmarksOptions
from xmodal.evals.evaluators.evaluator import Options
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.split import Split, name_image
from xmodal.evals.labels.types import Benchmark, Labels
from xmodal.evals.reports.example_rules import Pick, pick_examples
from xmodal.evals.reports.results import BenchmarkResult
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.score_rows import Scores

_SHOWN = 5  # Items per row.


def check_examples(count: int, options: Mapping[str, Options]) -> None:
    """Raises an error if no evaluator has queries for examples; `options` are by name.

    Raises:
      UserError: lists the evaluators.
    """
    if count and not any(isinstance(each, BenchmarksOptions) for each in options.values()):
        kinds = ", ".join(f"{name} ({each.type})" for name, each in options.items())
        raise UserError(
            f"Examples are queries of an evaluator of type benchmarks; there is {kinds}."
        )


def make_example_page(
    evaluator: BenchmarksEvaluator,
    rankings: Callable[[str], Scores],
    results: Sequence[BenchmarkResult],
    split: Items,
    count: int,
    *,
    name: str,
    other: StoredResults | None = None,
) -> Page:
    """Returns the page.

    Args:
      evaluator: evaluator whose benchmarks were evaluated.
      rankings: direction -> scores, see `BenchmarksEvaluator.open_rankings`.
      results: results of the evaluator on these benchmarks.
      split: has the captions, and pictures if there are any.
      count: largest number of queries per rule, direction and benchmark.
      name: name of the model.
      other: results of another model on the same benchmarks.
    """
    picks = pick_examples(evaluator.benchmarks, results, count, other)
    groups = make_groups(evaluator, functools.cache(rankings), picks, split)
    notes = [*evaluator.provenance.warnings, _HOW_TO_READ]
    if not split.has_pictures:
        notes.append("The dataset has no pictures; images are named by their first caption.")
    if not groups:
        notes.append("No rule selects any query.")
    return Page(f"{name}: examples of {evaluator.provenance.title}", groups, notes)


_HOW_TO_READ = (
    f"Every query with the first {_SHOWN} items that it finds, and the first {_SHOWN} of its other "
    "positives. Positives are framed; below every item are its rank, its score, the benchmarks "
    "where it is a positive, and human ratings of the pair."
)


def make_groups(
    evaluator: BenchmarksEvaluator,
    rankings: Callable[[str], Scores],
    picks: Sequence[Pick],
    split: Items,
) -> list[Group]:
    """Returns a section for every query of every pick; see `make_example_page` for arguments.

    `rankings` is called once for every pick.
    """
    shown = _ShownItems(split)
    galleries = {"image": evaluator.labels.image_ids, "text": evaluator.labels.caption_ids}
    groups = []
    for pick in picks:
        modality, other_modality = DIRECTIONS[pick.direction]
        gallery = galleries[other_modality]
        rows, ranking = (
            Positions("query", galleries[modality])(pick.queries),
            rankings(pick.direction),
        )
        scores = np.array(ranking.rows(rows)) if len(rows) else np.empty((0, len(gallery)))
        if modality == other_modality:
            scores[np.arange(len(rows)), rows] = -np.inf
        benchmarks = [
            benchmark
            for benchmark in evaluator.benchmarks
            if pick.direction in benchmark.directions
        ]
        sections = []
        for number, (row, of_row) in enumerate(zip(rows, scores, strict=True)):
            scored = ranking.find_scored(np.full(len(gallery), row), np.arange(len(gallery)))
            rank = f"rank {pick.ranks[number] + 1:,} of {np.sum(~np.isneginf(of_row)):,}"
            if pick.others is not None:
                rank += f", of the other model {pick.others[number] + 1:,}"
            query = shown(modality, pick.queries[number])
            if pick.direction == "t2i":  # The image of the query is an answer.
                query = dataclasses.replace(query, picture=None)
            found = _show_items(pick, benchmarks, int(row), of_row, scored, gallery, shown)
            name = shown.name(modality, pick.queries[number])
            sections.append(Section(f"{name}: {rank}", found, query))
        groups.append(Group(pick.title, sections, pick.note))
    return groups


def _show_items(
    pick: Pick,
    benchmarks: Sequence[Benchmark],
    row: int,
    scores: np.ndarray,
    scored: np.ndarray,
    gallery: np.ndarray,
    shown: "_ShownItems",
) -> list[PageRow]:
    """The first items of a query, and its positives farther down.

    Args:
      pick: names the direction, and the benchmark of the positives.
      benchmarks: benchmarks with this direction.
      row: position of the query.
      scores: scores of all items, float32 [N].
      scored: whether these are more than ranks, bool [N], see `Scores.find_scored`.
      gallery: ids of the items.
      shown: items by modality and id.
    """
    order = np.argsort(-scores, kind="stable")
    rank_of = np.argsort(order) + 1
    labels = {
        benchmark.name: benchmark.directions[pick.direction].positives for benchmark in benchmarks
    }
    positives = {
        name: each.expand(np.array([row]))[1]
        for name, each in labels.items()
        if isinstance(each, Ragged)
    }
    own = positives[pick.benchmark]
    first = order[: min(_SHOWN, len(order) - np.isneginf(scores).sum())]
    missed = np.setdiff1d(own, first)
    missed = missed[np.argsort(rank_of[missed])]
    ratings = _find_ratings(benchmarks, DIRECTIONS[pick.direction], row)

    def show(item: int) -> PageItem:
        of_item = [name for name, each in positives.items() if item in each]
        score = f"{scores[item]:.4f}" if scored[item] else "not scored"
        notes = [f"rank {rank_of[item]:,}", score, *ratings.get(int(item), ())]
        mark = f"positive of {', '.join(of_item)}" if of_item else ""
        if pick.benchmark not in of_item:
            notes, mark = [*notes, *filter(None, [mark])], ""
        return shown(DIRECTIONS[pick.direction][1], gallery[item], notes, mark)

    rows = [PageRow([show(item) for item in first], "Found first")]
    if len(missed):
        title = f"Positives farther down: {len(missed):,} of {len(own):,}"
        rows.append(PageRow([show(item) for item in missed[:_SHOWN]], title))
    return rows


def _find_ratings(
    benchmarks: Sequence[Benchmark], asked: tuple[str, str], row: int
) -> dict[int, list[str]]:
    """Human ratings of a query with items, by position of the item.

    SIS rates thousands of pairs in both orders; either score may make a pair a positive.
    """
    found: dict[int, list[str]] = {}
    for name, pairs in {name: x for each in benchmarks for name, x in each.graded.items()}.items():
        ends = pairs.left, pairs.right
        for modalities, own, item in (
            (pairs.modalities, *ends),
            (pairs.modalities[::-1], *ends[::-1]),
        ):
            for at in np.flatnonzero(own == row) if modalities == asked else ():
                rating = f"rated {pairs.scores[at]:.2f} ({name})"
                found.setdefault(int(item[at]), []).append(rating)
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
        image, text = int(item_id), ""
        if modality == "text":
            (at,) = self._captions(np.array([item_id]))
            text, image = self._split.caption_texts[at], int(self._split.caption_image_ids[at])
        picture, caption = self._picture(image), self._first.get(image, "")
        alt = name_image(self._split, image)
        if modality == "image":
            text = alt + (f', "{caption}"' if caption else "") if picture is None else ""
            alt += f": {caption}" if caption else ""
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


def find_examples(scores: Scores, labels: Labels, split: Split, count: int = 3) -> list[str]:
    """Returns a line of Markdown for each of a few captions: the image that it finds.

    The captions are evenly spaced in the labels. An image is named by its file, if the dataset has
    it, and by its first caption.

    Args:
      scores: scores of the captions and images of the labels.
      labels: labels in the order of the scores.
      split: split with the texts of the captions.
      count: largest number of captions.
    """
    captions = len(labels.caption_ids)
    count = min(count, captions)
    rows = (2 * np.arange(count) + 1) * captions // (2 * count)
    texts = Positions("caption", split.caption_ids)(labels.caption_ids)
    own_images = Positions("image", labels.image_ids).find(labels.caption_image_ids[rows])
    lines, has_files = [], "picture" in split.labels
    for row, own, of_row in zip(rows, own_images, scores.rows(rows), strict=True):
        order = np.argsort(-of_row, kind="stable")
        found = "its own image first"
        if order[0] != own:
            of_best = labels.caption_image_ids == labels.image_ids[order[0]]
            names = [name_image(split, labels.image_ids[order[0]])] if has_files else []
            if of_best.any():
                names.append(f'the image of "{split.caption_texts[texts[of_best.argmax()]]}"')
            named = ", ".join(names) or "another"
            found = f"{named} first"
            if own >= 0:  # In a part of a split, a caption's image may be missing.
                rank = 1 + int(np.flatnonzero(order == own)[0])
                found += f", its own at rank {rank:,} of {len(order):,}"
        lines.append(f'- "{split.caption_texts[texts[row]]}" finds {found}.')
    return lines
