"""A page of selected queries: the top items, and the ranks of their positives."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.page import Group, Page, PageItem, PageRow, Section
from xmodal.evals.evaluators.boards import BoardsEvaluator, BoardsOptions
from xmodal.evals.evaluators.evaluator import Options
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.split import name_image
from xmodal.evals.labels.types import Board
from xmodal.evals.reports.example_rules import Pick, pick_examples
from xmodal.evals.reports.results import BoardResult
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.score_rows import Scores

_SHOWN = 5  # Items per row.


def check_examples(count: int, options: Mapping[str, Options]) -> None:
    """Raises an error if no evaluator has queries for examples; `options` are by name.

    Raises:
      UserError: lists the evaluators.
    """
    if count and not any(isinstance(each, BoardsOptions) for each in options.values()):
        kinds = ", ".join(f"{name} ({each.type})" for name, each in options.items())
        raise UserError(f"Examples are queries of an evaluator of type boards; there is {kinds}.")


def make_example_page(
    evaluator: BoardsEvaluator,
    rankings: Callable[[str], Scores],
    results: Sequence[BoardResult],
    split: Items,
    count: int,
    *,
    name: str,
    other: StoredResults | None = None,
) -> Page:
    """Returns the page.

    Args:
      evaluator: evaluator whose boards were evaluated.
      rankings: direction -> scores, see `BoardsEvaluator.open_rankings`.
      results: results of the evaluator on these boards.
      split: has the captions, and pictures if there are any.
      count: largest number of queries per rule, direction and board.
      name: name of the model.
      other: results of another model on the same boards.
    """
    picks = pick_examples(evaluator.boards, results, count, other)
    groups = make_groups(evaluator, functools.cache(rankings), picks, split)
    title = f"{name}: examples of {evaluator.provenance.title}"
    notes = [*evaluator.provenance.warnings, _HOW_TO_READ]
    if not split.has_pictures:
        notes.append("The dataset has no pictures; images are named by their first caption.")
    if not groups:
        notes.append("No rule selects any query.")
    return Page(title, groups, notes)


def make_groups(
    evaluator: BoardsEvaluator,
    rankings: Callable[[str], Scores],
    picks: Sequence[Pick],
    split: Items,
) -> list[Group]:
    """Returns a section for every query of every pick; see `make_example_page` for arguments.

    `rankings` is called once for every pick.
    """
    shown = ShownItems(split)
    galleries = {"image": evaluator.labels.image_ids, "text": evaluator.labels.caption_ids}
    groups = []
    for pick in picks:
        query, gallery = (galleries[side] for side in DIRECTIONS[pick.direction])
        rows = Positions("query", query)(pick.queries)
        is_same = query is gallery
        of_direction = rankings(pick.direction)
        scores = np.array(of_direction.rows(rows)) if len(rows) else np.empty((0, len(gallery)))
        if is_same:
            scores[np.arange(len(rows)), rows] = -np.inf
        items = np.arange(len(gallery))
        boards = {b.name: b for b in evaluator.boards if pick.direction in b.directions}
        sections = [
            _make_section(
                pick,
                number,
                int(row),
                scores[number],
                of_direction.find_scored(np.full(len(items), row), items),
                gallery,
                boards,
                shown,
            )
            for number, row in enumerate(rows)
        ]
        groups.append(Group(pick.title, sections, pick.note))
    return groups


_HOW_TO_READ = (
    f"Every query with the first {_SHOWN} items that it finds, and the first {_SHOWN} of its other "
    "positives. Positives are framed; below every item are its rank, its score, the boards where "
    "it is a positive, and human ratings of the pair."
)


def _make_section(
    pick: Pick,
    number: int,
    query: int,
    scores: np.ndarray,
    scored: np.ndarray,
    gallery: np.ndarray,
    boards: Mapping[str, Board],
    shown: "ShownItems",
) -> Section:
    """One query.

    Args:
      pick: the pick of the query.
      number: index of the query in the pick.
      query: its position in its gallery.
      scores: scores of all items, float32 [N].
      scored: whether these are more than ranks, bool [N], see `find_scored`.
      gallery: ids of the items.
      boards: boards that have the direction, by name.
      shown: items by side and id.
    """
    query_side, item_side = DIRECTIONS[pick.direction]
    order = np.argsort(-scores, kind="stable")
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(1, len(order) + 1)
    positives = _positives(boards[pick.board], pick.direction, query)
    found = len(order) - np.isneginf(scores).sum()
    first = order[: min(_SHOWN, found)]
    missed = np.setdiff1d(positives, first)
    missed = missed[np.argsort(rank_of[missed])]
    known = [
        name
        for name in boards
        if isinstance(boards[name].directions[pick.direction].positives, Ragged)
    ]
    ratings = _ratings(boards, pick.direction, query)

    def show(item: int) -> PageItem:
        of_item = [
            name for name in known if item in _positives(boards[name], pick.direction, query)
        ]
        notes = [f"rank {rank_of[item]:,}", f"{scores[item]:.4f}" if scored[item] else "not scored"]
        notes += [f"rated {rating:.2f} ({name})" for name, rating in ratings.get(int(item), ())]
        mark = f"positive of {', '.join(of_item)}" if of_item else ""
        if item not in positives:
            notes, mark = [*notes, *filter(None, [mark])], ""
        return shown(item_side, gallery[item], notes, mark)

    rank = f"rank {pick.ranks[number] + 1:,} of {found:,}"
    if pick.others is not None:
        rank += f", of the other model {pick.others[number] + 1:,}"
    rows = [PageRow([show(item) for item in first], "Found first")]
    if len(missed):
        title = f"Positives farther down: {len(missed):,} of {len(positives):,}"
        rows.append(PageRow([show(item) for item in missed[:_SHOWN]], title))
    title = f"{shown.name(query_side, pick.queries[number])}: {rank}"
    query_item = shown(query_side, pick.queries[number])
    if pick.direction == "t2i":  # The image of the query is an answer.
        query_item = dataclasses.replace(query_item, picture=None)
    return Section(title, rows, query_item)


def _positives(board: Board, direction: str, query: int) -> np.ndarray:
    positives = board.directions[direction].positives
    assert isinstance(positives, Ragged)
    return positives.values[positives.offsets[query] : positives.offsets[query + 1]]


def _ratings(
    boards: Mapping[str, Board], direction: str, query: int
) -> dict[int, list[tuple[str, float]]]:
    """Human ratings of the query with items: position of the item -> (rating, score).

    SIS rates thousands of pairs in both orders; either score may make a pair a positive.
    """
    sides = DIRECTIONS[direction]
    rated = {name: pairs for board in boards.values() for name, pairs in board.graded.items()}
    found: dict[int, list[tuple[str, float]]] = {}
    for name, pairs in rated.items():
        ends = [(pairs.modalities, pairs.left, pairs.right)]
        ends.append((pairs.modalities[::-1], pairs.right, pairs.left))
        for modalities, own, item in ends:
            if modalities == sides:
                for at in np.flatnonzero(own == query):
                    found.setdefault(int(item[at]), []).append((name, float(pairs.scores[at])))
    return found


class ShownItems:
    """Images and captions of a split by id; a caption has the picture of its image."""

    def __init__(self, split: Items) -> None:
        self._split = split
        self._images = Positions("image", split.image_ids)
        self._captions = Positions("caption", split.caption_ids)
        self._first = dict(
            zip(split.caption_image_ids[::-1].tolist(), split.caption_texts[::-1], strict=True)
        )
        self._pictures: dict[int, bytes] = {}

    def __call__(
        self, side: str, item_id: int, notes: Sequence[str] = (), mark: str = ""
    ) -> PageItem:
        """Returns the item of a side, "image" or "text", that has an id."""
        image, text = int(item_id), ""
        if side == "text":
            (at,) = self._captions(np.array([item_id]))
            text, image = self._split.caption_texts[at], int(self._split.caption_image_ids[at])
        picture = self._picture(image)
        caption = self._first.get(image, "")
        if side == "image" and picture is None:
            text = name_image(self._split, image) + (f', "{caption}"' if caption else "")
        alt = name_image(self._split, image)
        alt = alt if side == "text" or not caption else f"{alt}: {caption}"
        return PageItem(text, picture, alt, notes=notes, mark=mark)

    def name(self, side: str, item_id: int) -> str:
        """The name of an item in a title; a caption of a known file is named by it."""
        if "picture" not in self._split.labels:
            return f"{'Image' if side == 'image' else 'Caption'} {item_id}"
        if side == "image":
            return name_image(self._split, item_id)
        (at,) = self._captions(np.array([item_id]))
        return f"Caption of {name_image(self._split, self._split.caption_image_ids[at])}"

    def _picture(self, image: int) -> bytes | None:
        (row,) = self._images.find(np.array([image]))
        if not self._split.has_pictures or row < 0:
            return None
        if image not in self._pictures:
            (self._pictures[image],) = self._split.pictures(np.array([row]))
        return self._pictures[image]
