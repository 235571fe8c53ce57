"""The part of a file of scores that a second stage writes: the items it scored for every query."""

from collections.abc import Collection, Mapping

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.scores.sources import Candidates, Embeddings

# Direction -> its arrays of ids and of scores, and the name of its queries' ids.
_NAMES = {
    "i2t": ("i2t_candidates", "i2t_scores", "image_ids"),
    "t2i": ("t2i_candidates", "t2i_scores", "caption_ids"),
}
_KINDS = {"i2t": ("image", "caption"), "t2i": ("caption", "image")}
_DEFINITION = "score_definition"
ARRAYS = frozenset({name for names in _NAMES.values() for name in names[:2]} | {_DEFINITION})
# As large as a score may be; integers that rank all other items are smaller.
LARGEST_SCORE = 1 << 22


def has_candidates(arrays: Collection[str]) -> bool:
    """Returns whether arrays of these names hold candidates of a direction."""
    return any(ids in arrays or scores in arrays for ids, scores, _ in _NAMES.values())


def read_candidates(
    arrays: Mapping[str, np.ndarray],
    place: str,
    queries: Mapping[str, np.ndarray],
    first: Embeddings | None,
) -> Candidates:
    """Returns the candidates in some arrays, and their scores.

    Args:
      arrays: `i2t_candidates` and `i2t_scores` [N, K], ids of captions and their scores, a row per
        image; `t2i_candidates` and `t2i_scores` [M, K], of images, a row per caption; one direction
        may be missing. `score_definition`, a string, is optional.
      place: names the file in messages.
      queries: `image_ids` and `caption_ids`.
      first: embeddings of the same items by the first stage; None if there are none.

    Raises:
      UserError: the arrays do not fit together, a query names an item twice, or a score is not
        finite.
    """
    definition = arrays.get(_DEFINITION, np.array("the scores of a file"))
    if definition.shape != () or definition.dtype.kind != "U":
        raise UserError(f"{_DEFINITION} in {place} is {definition.tolist()}, not one string.")
    directions = {}
    for direction, (*names, ids) in _NAMES.items():
        given = [name for name in names if name in arrays]
        if len(given) == 1:
            lacks = next(name for name in names if name not in given)
            raise UserError(f"{place} has {given[0]!r} but no {lacks!r}; save both or neither.")
        if given:
            items, scores = (arrays[name] for name in names)
            _check_shapes(items, scores, len(queries[ids]), f"{direction!r} in {place}", ids)
            _check_rows(items, scores, queries[ids], direction, place)
            directions[direction] = items.astype(np.int64), scores
    ids_of_sides = queries["image_ids"], queries["caption_ids"]
    return Candidates(place, *ids_of_sides, directions, str(definition), first)


def _check_shapes(
    items: np.ndarray, scores: np.ndarray, queries: int, place: str, ids: str
) -> None:
    if not np.issubdtype(items.dtype, np.integer) or scores.dtype not in (
        np.float16,
        np.float32,
        np.float64,
    ):
        raise UserError(
            f"Candidates of {place} are {items.dtype} and their scores {scores.dtype}; save ids as "
            "integers and scores as float32 or float64."
        )
    if items.ndim != 2 or items.shape != scores.shape or len(items) != queries or not items.size:
        raise UserError(
            f"Candidates of {place} are {list(items.shape)} and their scores "
            f"{list(scores.shape)} for {queries} {ids}; both are [Q, K], a row per query, "
            "with K of at least 1."
        )


def _check_rows(
    items: np.ndarray, scores: np.ndarray, queries: np.ndarray, direction: str, place: str
) -> None:
    query, item = _KINDS[direction]
    ordered = np.sort(items, axis=1)
    twice = ordered[:, 1:] == ordered[:, :-1]
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise UserError(
            f"{direction}_candidates in {place}: {query} {queries[row]} names {item} "
            f"{ordered[row, column]} twice, one of {np.sum(twice.any(axis=1))} such rows; an item "
            "has one score."
        )
    wrong = ~(np.abs(scores) < LARGEST_SCORE)  # Also if it is NaN.
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise UserError(
            f"{direction}_scores in {place}: that of {query} {queries[row]} with {item} "
            f"{items[row, column]} is {scores[row, column]}; scores must be finite and below "
            f"{LARGEST_SCORE:,}. Leave out items that were not scored."
        )


def write_candidates(found: Candidates) -> dict[str, np.ndarray]:
    """Returns the arrays that `read_candidates` reads, but those of the first stage."""
    arrays = {_DEFINITION: np.array(found.definition)}
    for direction, given in found.directions.items():
        arrays |= zip(_NAMES[direction][:2], given, strict=True)
    return arrays
