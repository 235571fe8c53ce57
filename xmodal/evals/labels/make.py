"""Makes benchmarks from labels."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_prep.cxc.cxc_files import THRESHOLDS
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import (
    DIRECTIONS,
    PUBLIC,
    RATING_SIDES,
    Definition,
    definitions_of,
)
from xmodal.evals.labels.ids import LabelHash, Positions
from xmodal.evals.labels.positives import Ragged, own_pairs, plausible_matches
from xmodal.evals.labels.types import Benchmark, DirectionLabels, GradedPairs, Labels

_NOTHING_LEFT = "neither positives nor ratings are left"
_ENDS = ("left_ids", "right_ids")
# Labels -> the released files that hold them.
_FILES = {
    **{rating: f"{rating}_val.csv or {rating}_test.csv" for rating in THRESHOLDS},
    "eccv": "eccv_image_to_caption.json and eccv_caption_to_image.json",
    "categories": "instances_val2014.json or val2014_categories.npz",
    "folds": "coco_test_ids.npy",
    "shortlist": "test_img_keys_1k.tsv",
    "matches": "the config matches of the dataset",
}


def make_benchmarks(labels: Labels, names: Sequence[str] | None = None) -> list[Benchmark]:
    """Returns benchmarks of a dataset.

    Args:
      labels: labels of the split.
      names: names of the benchmarks; None for every benchmark that has its labels, except variants.
    """
    known, maker = definitions_of(labels.name) | labels.definitions, _Maker(labels)
    benchmarks: list[Benchmark] = []
    chosen = [each.name for each in known.values() if not each.variant] if names is None else names
    for name in dict.fromkeys(chosen):
        definition = lookup(f"the benchmarks of {labels.name}", name, known)
        why = _lacking(labels, definition)
        benchmark = None if why else maker.make(definition)
        if benchmark is not None and (benchmark.directions or benchmark.graded):
            benchmarks.append(benchmark)
        elif names is not None:
            raise UserError(f"Benchmark {name} cannot be computed: {why or _NOTHING_LEFT}.")
    return benchmarks


def explain_left_out(labels: Labels, benchmarks: Sequence[Benchmark]) -> dict[str, list[str]]:
    """Returns the benchmarks that `make_benchmarks` left out by default, by reason; no variants."""
    made = {benchmark.name for benchmark in benchmarks}
    reasons: dict[str, list[str]] = {}
    for name, definition in (definitions_of(labels.name) | labels.definitions).items():
        if name not in made and not definition.variant:
            reasons.setdefault(_lacking(labels, definition) or _NOTHING_LEFT, []).append(name)
    return reasons


class _Maker:
    """Makes the benchmarks of one split, sharing their common parts."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._galleries = {
            "image": Positions("image", labels.image_ids),
            "text": Positions("caption", labels.caption_ids),
        }
        images = self._galleries["image"]
        # In a part of a split, a caption's image may be missing.
        self._own_image = images.find(labels.caption_image_ids)
        group = np.unique(labels.caption_image_ids, return_inverse=True)[1]
        one_text = None if labels.name in PUBLIC else labels.texts
        self._own = own_pairs(self._own_image, group, one_text)
        self._graded = functools.cache(self._grade)

    def make(self, definition: Definition) -> Benchmark:
        """Makes one benchmark."""
        label_hash, partial = LabelHash(), self._labels.partial
        for kind, gallery in self._galleries.items():
            label_hash.add(kind, gallery.ids)
        make = self._plausible if definition.zetas else self._paired
        made = {name: make(definition, name, label_hash) for name in definition.directions}
        directions = {name: each for name, each in made.items() if each is not None}
        graded = {}
        for rating in definition.correlations:
            given = self._labels.ratings.get(rating)
            if given is not None and len(given["scores"]):
                graded[rating] = self._graded(rating)
                ids = (np.asarray(given[end]) for end in _ENDS)
                label_hash.add(rating, *ids, graded[rating].scores)
        sentence = definition.sentence + (f" Only {partial}." if partial else "")
        name, digits = definition.name, label_hash.digits()
        read = {definition.released, *definition.rated, *definition.correlations}
        added = self._labels.added
        is_own = digits == definition.published or (added is not None and not added & read)
        label_set = name if is_own else self._labels.label_set or name
        return Benchmark(name, sentence, directions, graded, digits, label_set)

    def _grade(self, rating: str) -> GradedPairs:
        """The pairs of a rating, by position."""
        given, modalities = self._labels.ratings[rating], RATING_SIDES[rating]
        left, right = (
            self._galleries[kind](given[end]) for kind, end in zip(modalities, _ENDS, strict=True)
        )
        # Between captions and images, the images are the queries, as in the published deviations.
        queries = [left, right] if modalities[0] == modalities[1] else [right]
        _, rows = np.unique(np.concatenate(queries), return_inverse=True)  # Only rated items.
        pair = np.tile(np.arange(len(left)), len(queries))
        of_query = Ragged.from_pairs(rows, pair, int(rows.max(initial=-1)) + 1)
        return GradedPairs(
            modalities, left, right, np.asarray(given["scores"], np.float32), of_query
        )

    def _paired(
        self, definition: Definition, direction: str, label_hash: LabelHash
    ) -> DirectionLabels | None:
        """A direction whose positives are listed pairs; None if there are none."""
        query, gallery = (self._galleries[kind] for kind in DIRECTIONS[direction])
        folds = self._folds(definition, direction)
        beyond = np.zeros((2, 0), np.int64)  # Ids of positives outside the gallery.
        given: Any = 1.0  # Grades.
        if _is_listed(self._labels, definition):
            listed = self._labels.lists[definition.released][direction]
            ids = np.stack(listed[:2])
            found = gallery.find(ids[1])
            pairs, beyond = np.stack([query(ids[0]), found])[:, found >= 0], ids[:, found < 0]
            given = listed[2][found >= 0] if len(listed) > 2 else given
            if beyond.shape[1] > definition.unreachable:
                gallery(beyond[1])  # The error names them.
        else:
            sources = [_rated_pairs(self._graded(x), THRESHOLDS[x]) for x in definition.rated]
            sources += [self._own] * definition.own
            listed = [each[direction] for each in sources if direction in each]
            pairs = np.concatenate([beyond, *listed], axis=1)
        if definition.shortlisted:
            pairs = pairs[:, folds[0][pairs[0]] == 0]
        if not pairs.size:
            return None
        positives = Ragged.from_pairs(pairs[0], pairs[1], len(query.ids))
        rows = np.repeat(np.arange(len(query.ids)), positives.lengths)
        grades = np.zeros(len(rows))
        np.maximum.at(grades, positives.find(*pairs), given)  # A pair may be judged twice.
        graded = [grades] * bool(np.any(grades != 1))
        label_hash.add(direction, query.ids[rows], gallery.ids[positives.values], *graded)
        if folds is not None:
            label_hash.add(f"folds of {direction}", query.ids, folds[0])
        unreachable = None
        if beyond.size:
            label_hash.add(f"beyond {direction}", *beyond)
            unreachable = np.bincount(query(beyond[0]), minlength=len(query.ids)).astype(np.int32)
        return DirectionLabels(
            positives, definition.metrics, unreachable, definition.cap, folds, grades
        )

    def _folds(
        self, definition: Definition, direction: str
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Folds of the queries [Q] and of the gallery items [N]; None for a whole gallery."""
        of_images = self._labels.folds if definition.folded else None
        if definition.shortlisted:
            of_images = (~self._labels.shortlist).astype(np.int32)
        if of_images is None:
            return None
        found = {"image": of_images, "text": of_images[self._own_image]}
        query, gallery = DIRECTIONS[direction]
        return found[query], found[gallery]

    def _plausible(
        self, definition: Definition, direction: str, label_hash: LabelHash
    ) -> DirectionLabels | None:
        """A direction whose positives are plausible matches; None if nothing has a category."""
        kinds = DIRECTIONS[direction]
        categories = {"image": self._labels.categories, "text": self._labels.caption_categories}
        query, gallery = (categories[kind] for kind in kinds)
        ids, folds = self._galleries[kinds[0]].ids, self._folds(definition, direction)
        if folds is not None:
            label_hash.add(f"folds of {direction}", ids, folds[0])
        relations = plausible_matches(query, gallery, definition.zetas, folds)
        if not relations[-1].lengths.any():
            return None
        # The vectors and the rule determine the pairs, in far fewer bytes.
        rule = f"{direction} {definition.zetas} {definition.cap} {definition.labeled_gallery}"
        label_hash.add(rule, ids, *np.packbits(query, axis=1).T)
        if definition.labeled_gallery:  # Items without a category are a fold of their own.
            own = folds or (np.zeros(len(query), np.int32), np.zeros(len(gallery), np.int32))
            last = own[0].max() + 1
            of_query, of_gallery = (
                np.where(rows.any(1), each, last).astype(np.int32)
                for rows, each in zip((query, gallery), own, strict=True)
            )
            folds = of_query, of_gallery
        positives = relations[0] if len(relations) == 1 else relations
        return DirectionLabels(positives, definition.metrics, cap=definition.cap, folds=folds)


def _rated_pairs(pairs: GradedPairs, least: float) -> dict[str, np.ndarray]:
    """Pairs with at least a rating as positives in both directions, see `own_pairs`."""
    good = pairs.scores >= least
    forward = np.stack([pairs.left[good], pairs.right[good]])
    if pairs.modalities == ("text", "image"):
        return {"t2i": forward, "i2t": forward[::-1]}
    both = np.concatenate([forward, forward[::-1]], axis=1)
    both = both[:, both[0] != both[1]]  # An item is not its own positive.
    return {"t2t" if pairs.modalities == ("text", "text") else "i2i": both}


def _lacking(labels: Labels, definition: Definition) -> str:
    """Which labels are missing for a benchmark; "" if none are."""
    if (definition.shortlisted or definition.folded) and labels.partial:
        return f"it needs the whole split, and this is {labels.partial}"
    needed = {
        "categories": bool(definition.zetas) and labels.caption_categories is None,
        "folds": definition.folded and labels.folds is None,
        "shortlist": definition.shortlisted and labels.shortlist is None,
    }
    if not _is_listed(labels, definition):
        needed = {rating: rating not in labels.ratings for rating in definition.rated} | needed
        needed |= {definition.released: not definition.rated} if definition.released else {}
    missing = [f"{name!r} ({_FILES[name]})" for name, is_missing in needed.items() if is_missing]
    return f"{labels.name} lacks the labels {' and '.join(missing)}" if missing else ""


def _is_listed(labels: Labels, definition: Definition) -> bool:
    """Whether the labels have the definition's released list."""
    return set(definition.directions) <= set(labels.lists.get(definition.released, ()))
