"""Makes boards from labels."""

from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import (
    DIRECTIONS,
    PUBLIC,
    RATING_SIDES,
    RELEASED_FILES,
    Definition,
    definitions_of,
)
from xmodal.evals.labels.ids import LabelHash, Positions
from xmodal.evals.labels.positives import Ragged, own_pairs, plausible_matches, rated_pairs
from xmodal.evals.labels.types import Board, DirectionLabels, GradedPairs, Labels

_NOTHING_LEFT = "neither positives nor ratings are left"


def make_boards(labels: Labels, names: Sequence[str] | None = None) -> list[Board]:
    """Returns boards of a dataset.

    Args:
      labels: labels of the split.
      names: names of the boards; None for every board that has its labels, except variants.

    Raises:
      UserError: a label names an item that is not in the galleries, a board is unknown, or a
        board requested by name lacks its labels.
    """
    known = definitions_of(labels.name)
    if unknown := [name for name in names or () if name not in known]:
        raise UserError(f"Unknown board(s) {unknown} of {labels.name}; known: {', '.join(known)}.")
    maker = _Maker(labels)
    if names is None:
        main = [each for each in known.values() if not each.variant]
        made = [maker.make(each) for each in main if not _lacking(labels, each)]
        return [board for board in made if board.directions or board.graded]
    made = []
    for name in dict.fromkeys(names):
        if lacking := _lacking(labels, known[name]):
            raise UserError(f"Board {name} cannot be computed: {lacking}.")
        made.append(board := maker.make(known[name]))
        if not (board.directions or board.graded):
            raise UserError(f"Board {name} cannot be computed, {_NOTHING_LEFT}: {board.definition}")
    return made


def explain_left_out(labels: Labels, boards: Sequence[Board]) -> dict[str, list[str]]:
    """Returns the boards that `make_boards` left out by default, by reason; no variants."""
    made = {board.name for board in boards}
    reasons: dict[str, list[str]] = {}
    for name, definition in definitions_of(labels.name).items():
        if name not in made and not definition.variant:
            reason = _lacking(labels, definition) or _NOTHING_LEFT
            reasons.setdefault(reason, []).append(name)
    return reasons


class _Maker:
    """Makes the boards of one split, sharing their common parts."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._categories = {"image": labels.categories, "text": labels.caption_categories}
        self._galleries = {
            "image": Positions("image", labels.image_ids),
            "text": Positions("caption", labels.caption_ids),
        }
        images = self._galleries["image"]
        # In a part of a split, a caption's image may be missing.
        own_image = (images.find if labels.partial else images)(labels.caption_image_ids)
        group = np.unique(labels.caption_image_ids, return_inverse=True)[1]
        one_text = None if labels.name in PUBLIC else labels.texts
        self._own = own_pairs(own_image, group, one_text)
        self._own_image = own_image
        # A dataset may have ratings that none of its boards uses.
        used = definitions_of(labels.name).values()
        used = {rating for each in used for rating in (*each.thresholds, *each.correlations)}
        self._graded = {
            rating: _make_graded(pairs, RATING_SIDES[rating], self._galleries)
            for rating, pairs in labels.ratings.items()
            if rating in used
        }

    def make(self, definition: Definition) -> Board:
        """Makes one board."""
        label_hash = LabelHash()
        for kind, gallery in self._galleries.items():
            label_hash.add(kind, gallery.ids)
        directions = {}
        for direction in definition.directions:
            if definition.zetas:
                made = self._plausible(definition, direction, label_hash)
            else:
                made = self._paired(definition, direction, label_hash)
            if made is not None:
                directions[direction] = made
        graded = {}
        for rating in definition.correlations:
            pairs = self._graded.get(rating)
            if pairs is not None and len(pairs.scores):
                graded[rating] = pairs
                ids = (self._labels.ratings[rating][f"{side}_ids"] for side in ("left", "right"))
                label_hash.add(rating, *map(np.asarray, ids), pairs.scores)
        partial = self._labels.partial
        sentence = definition.sentence + (f" Only {partial}." if partial else "")
        return Board(definition.name, sentence, directions, graded, label_hash.digits())

    def _paired(
        self, definition: Definition, direction: str, label_hash: LabelHash
    ) -> DirectionLabels | None:
        """A direction whose positives are listed pairs; None if there are none."""
        query, gallery = (self._galleries[kind] for kind in DIRECTIONS[direction])
        pairs, unreachable = self._pairs(definition, direction)
        if definition.shortlisted:
            pairs = pairs[:, self._by_kind(self._labels.shortlist, direction)[0][pairs[0]]]
        if not pairs.size:
            return None
        positives = Ragged.from_pairs(pairs[0], pairs[1], len(query.ids))
        rows = np.repeat(np.arange(len(query.ids)), positives.lengths)
        label_hash.add(direction, query.ids[rows], gallery.ids[positives.values])
        folds = self._folds(definition, direction, label_hash)
        counts = None
        if unreachable.size:
            label_hash.add(f"beyond {direction}", *unreachable)
            counts = np.bincount(query(unreachable[0]), minlength=len(query.ids)).astype(np.int32)
        return DirectionLabels(positives, definition.metrics, counts, definition.cap, folds)

    def _pairs(self, definition: Definition, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Positions [2, P] of positive pairs, and ids [2, U] of those beyond the gallery."""
        query, gallery = (self._galleries[kind] for kind in DIRECTIONS[direction])
        none = np.zeros((2, 0), np.int64)
        if _is_listed(self._labels, definition):
            ids = np.stack(self._labels.lists[definition.released][direction])
            found = gallery.find(ids[1])
            beyond = ids[:, found < 0]
            if beyond.shape[1] > definition.unreachable:
                gallery(beyond[1])  # The error names them.
            return np.stack([query(ids[0]), found])[:, found >= 0], beyond
        pairs = [self._own.get(direction, none)] if definition.own else [none]
        for rating, threshold in definition.thresholds.items():
            graded = self._graded[rating]
            good = graded.scores >= threshold
            rated = rated_pairs(graded.modalities, graded.left[good], graded.right[good])
            pairs.append(rated.get(direction, none))
        return np.concatenate(pairs, axis=1), none

    def _folds(
        self, definition: Definition, direction: str, label_hash: LabelHash
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Folds of the queries [Q] and of the gallery items [N]; None for a whole gallery."""
        if definition.shortlisted:
            of_images = (~self._labels.shortlist).astype(np.int32)
        elif definition.folded:
            of_images = self._labels.folds
        else:
            return None
        query, gallery = self._by_kind(of_images, direction)
        label_hash.add(
            f"folds of {direction}", self._galleries[DIRECTIONS[direction][0]].ids, query
        )
        return query, gallery

    def _by_kind(self, of_images: np.ndarray, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """A property of images [N] for the queries and the gallery items of a direction."""
        found = {"image": of_images, "text": of_images[self._own_image]}
        query, gallery = DIRECTIONS[direction]
        return found[query], found[gallery]

    def _plausible(
        self, definition: Definition, direction: str, label_hash: LabelHash
    ) -> DirectionLabels | None:
        """A direction whose positives are plausible matches; None if nothing has a category."""
        kinds = DIRECTIONS[direction]
        query, gallery = (self._categories[kind] for kind in kinds)
        folds = self._folds(definition, direction, label_hash)
        relations = plausible_matches(query, gallery, definition.zetas, folds)
        if not relations[-1].lengths.any():
            return None
        # The vectors and the rule determine the pairs, in far fewer bytes.
        columns = np.packbits(query, axis=1).T
        rule = f"{direction} {definition.zetas} {definition.cap} {definition.labeled_gallery}"
        label_hash.add(rule, self._galleries[kinds[0]].ids, *columns)
        if definition.labeled_gallery:  # Items without a category are a fold of their own.
            folds = folds or (np.zeros(len(query), np.int32), np.zeros(len(gallery), np.int32))
            apart = folds[0].max() + 1
            of_query, of_gallery = (
                np.where(rows.any(1), own, apart).astype(np.int32)
                for rows, own in zip((query, gallery), folds, strict=True)
            )
            folds = of_query, of_gallery
        positives = relations[0] if len(relations) == 1 else relations
        return DirectionLabels(positives, definition.metrics, cap=definition.cap, folds=folds)


def _lacking(labels: Labels, definition: Definition) -> str:
    """Which labels are missing for a board; "" if none are."""
    if definition.shortlisted and labels.partial:
        return f"its list needs the whole split, and this is {labels.partial}"
    if definition.folded and labels.partial:
        return f"its folds need the whole split, and this is {labels.partial}"
    missing = []
    if not _is_listed(labels, definition):
        missing += [rating for rating in definition.thresholds if rating not in labels.ratings]
        if definition.released and not definition.thresholds:
            missing.append(definition.released)
    if definition.zetas and labels.caption_categories is None:
        missing.append("categories")
    if definition.folded and labels.folds is None:
        missing.append("folds")
    if definition.shortlisted and labels.shortlist is None:
        missing.append("shortlist")
    wanted = " and ".join(f"{each!r} ({RELEASED_FILES[each]})" for each in missing)
    return f"{labels.name} lacks the labels {wanted}" if missing else ""


def _is_listed(labels: Labels, definition: Definition) -> bool:
    """Whether the labels have the definition's released list."""
    return set(definition.directions) <= set(labels.lists.get(definition.released, ()))


def _make_graded(
    pairs: Mapping[str, np.ndarray],
    sides: tuple[str, str, tuple[str, ...]],
    galleries: Mapping[str, Positions],
) -> GradedPairs:
    left_kind, right_kind, query_sides = sides
    ends = {
        "left": galleries[left_kind](pairs["left_ids"]),
        "right": galleries[right_kind](pairs["right_ids"]),
    }
    queries = np.concatenate([ends[side] for side in query_sides])
    pair = np.tile(np.arange(len(ends["left"])), len(query_sides))
    _, rows = np.unique(queries, return_inverse=True)  # Only rated items are queries.
    return GradedPairs(
        modalities=(left_kind, right_kind),
        left=ends["left"],
        right=ends["right"],
        scores=np.asarray(pairs["scores"], np.float32),
        pairs_of_query=Ragged.from_pairs(rows, pair, int(rows.max(initial=-1)) + 1),
    )
