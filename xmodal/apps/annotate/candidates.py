"""The best items of a query, from any model's embeddings, scores or rankings."""

import os
import zipfile
from typing import NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.untrusted.archives import ZIP_ERRORS
from xmodal.evals.evaluators.runner import OpenScores
from xmodal.evals.scores.arrays import has_candidates, load_embeddings, load_scores
from xmodal.evals.scores.files import choose_similarity, load_rankings
from xmodal.evals.scores.galleries import Ids, find_items, ids_of
from xmodal.evals.scores.score_rows import top_items
from xmodal.evals.scores.sources import Candidates, Embeddings, RankedLists, ScoreMatrix, Source

# Direction -> the ids of its queries and of its gallery.
_KINDS = {"i2t": ("image_ids", "caption_ids"), "t2i": ("caption_ids", "image_ids")}


def read_source(path: str, similarity: str | None) -> Source:
    """Reads rankings (.json), scores (.npz with `scores`) or embeddings (any other .npz)."""
    if path.endswith(".json"):
        return load_rankings(path)
    if _has_scores(path):
        scores = load_scores(path, None)
        if isinstance(scores, Candidates):
            raise UserError(
                f"{path} has candidates and their scores: save their ids, best first, as rankings."
            )
        return scores
    return choose_similarity(load_embeddings(path), similarity)


def best_items(
    source: Source, split: Ids, direction: str, queries: np.ndarray, depth: int
) -> list[np.ndarray]:
    """Returns the best items of every query, best first.

    Args:
      source: source of one model.
      split: the queries and the galleries; other items of a model are ignored.
      direction: `i2t` or `t2i`.
      queries: int [Q], their ids.
      depth: number of items; fewer if the gallery or a ranked list has fewer.

    Returns:
      Q arrays of ids.
    """
    if isinstance(source, RankedLists):
        return _from_lists(source, split, direction, queries, depth)
    assert not isinstance(source, Candidates), "`read_source` refuses them"
    _check_complete(source, split)
    if not len(queries):
        return []
    kind, found = _KINDS[direction]
    ids = {"image_ids": np.asarray(split.image_ids), "caption_ids": np.asarray(split.caption_ids)}
    scores = OpenScores(source, _Items(**{**ids, kind: np.asarray(queries)})).ranking(direction)
    # Ties are broken by the order of the gallery, as in an evaluation.
    blocks = scores.blocks(np.arange(len(queries)))
    return [ids[found][best] for _, rows in blocks for best in top_items(rows, depth)]


class _Items(NamedTuple):
    """See `Ids`."""

    image_ids: np.ndarray
    caption_ids: np.ndarray


def _has_scores(path: str) -> bool:
    if os.path.splitext(path)[1] == ".npy":
        raise UserError(
            f"{path} has scores without ids: save scores, image_ids and caption_ids as an npz file."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            return "scores" in names or has_candidates(names)
    except (OSError, ValueError, *ZIP_ERRORS):
        return False  # The reader of embeddings reports what is wrong.


def _check_complete(source: Embeddings | ScoreMatrix, split: Ids) -> None:
    for kind, ids in ids_of(source).items():
        wanted = np.asarray(split.image_ids if kind == "image" else split.caption_ids)
        find_items(source.place, kind, ids, wanted)  # Raises an error if one is missing.
    if isinstance(source, Embeddings) and len(source.sides) < 2:
        raise UserError(f"{source.place} has embeddings of only one side; candidates need both.")


def _from_lists(
    source: RankedLists, split: Ids, direction: str, queries: np.ndarray, depth: int
) -> list[np.ndarray]:
    lists = source.i2t if direction == "i2t" else source.t2i
    known = np.asarray(split.caption_ids if direction == "i2t" else split.image_ids)
    if lists is None:
        raise UserError(f"{source.place} has no lists under {direction!r}.")
    best = []
    for query in queries:
        if int(query) not in lists:
            raise UserError(f"{source.place} has no list of query {query} under {direction!r}.")
        ranked = lists[int(query)]
        ranked = ranked[np.isin(ranked, known)]
        if not len(ranked):  # Lists of one item each are one array, which it would shift.
            raise UserError(
                f"The list of query {query} under {direction!r} of {source.place} has no item of "
                "the split: rank this split's items."
            )
        best.append(ranked[:depth])
    return best
