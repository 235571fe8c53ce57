"""The best items of a query, from any model's embeddings, scores or rankings."""

import os
import zipfile
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.config import UserError
from xmodal.evals.boards.ids import Positions
from xmodal.evals.from_files import choose_similarity
from xmodal.evals.inputs.arrays import load_embeddings, load_scores
from xmodal.evals.inputs.galleries import Ids, ids_of, order_embeddings
from xmodal.evals.inputs.lists import load_rankings
from xmodal.evals.inputs.sources import Embeddings, RankedLists, ScoreMatrix, Source
from xmodal.losses.similarity import make_similarity

_AT_A_TIME = 256
_KINDS = {"i2t": ("image", "caption"), "t2i": ("caption", "image")}


def read_source(path: str, similarity: str | None) -> Source:
    """Reads rankings (.json), scores (.npz with `scores`) or embeddings (any other .npz).

    Raises:
      UserError: the file cannot be used.
    """
    if path.endswith(".json"):
        return load_rankings(path)
    if _has_scores(path):
        return load_scores(path, None)
    return choose_similarity(load_embeddings(path), similarity)


def best_items(
    source: Source, split: Ids, task: str, queries: np.ndarray, depth: int
) -> list[np.ndarray]:
    """Returns the best items of every query, best first.

    Args:
      source: source of one model.
      split: the queries and the galleries; other items of a model are ignored.
      task: `i2t` or `t2i`.
      queries: int [Q], their ids.
      depth: number of items; fewer if the gallery or a ranked list has fewer.

    Returns:
      Q arrays of ids.

    Raises:
      UserError: the model lacks a side, an item or a query.
    """
    if isinstance(source, RankedLists):
        return _from_lists(source, split, task, queries, depth)
    score = _scorer(source, split, transposed=task == "t2i")
    kind, found = _KINDS[task]
    ids = {"image": np.asarray(split.image_ids), "caption": np.asarray(split.caption_ids)}
    rows = Positions(kind, ids[kind])(queries)
    best: list[np.ndarray] = []
    for start in range(0, len(rows), _AT_A_TIME):
        scores = score(rows[start : start + _AT_A_TIME])
        if not np.isfinite(scores).all():
            raise UserError(f"{source.place} has scores that are not finite.")
        # Ties are broken by the order of the gallery, as in an evaluation.
        order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        best.extend(ids[found][order])
    return best


def _has_scores(path: str) -> bool:
    if os.path.splitext(path)[1] == ".npy":
        raise UserError(
            f"{path} has scores without ids: save scores, image_ids and caption_ids as an npz file."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            return "scores.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False  # The reader of embeddings reports what is wrong.


def _check_complete(source: Embeddings | ScoreMatrix, split: Ids) -> None:
    for kind, ids in ids_of(source).items():
        wanted = np.asarray(split.image_ids if kind == "image" else split.caption_ids)
        missing = np.setdiff1d(wanted, ids)
        if len(missing):
            raise UserError(
                f"{source.place} lacks {len(missing):,} of the {len(wanted):,} {kind}s of the "
                f"split, the first is {missing[0]}: is it from another split?"
            )


def _scorer(
    source: Embeddings | ScoreMatrix, split: Ids, *, transposed: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Positions [b] of queries in the split -> their scores [b, items]; captions if transposed."""
    _check_complete(source, split)
    if isinstance(source, ScoreMatrix):
        rows = Positions("image", source.image_ids)(np.asarray(split.image_ids))
        columns = Positions("caption", source.caption_ids)(np.asarray(split.caption_ids))
        if transposed:
            return lambda at: np.asarray(source.matrix[:, columns[at]])[rows].T
        return lambda at: np.asarray(source.matrix[rows[at]])[:, columns]
    if len(source.sides) < 2:
        raise UserError(f"{source.place} has embeddings of only one side; candidates need both.")
    ordered = order_embeddings(source, split)
    prepare, score = make_similarity({"name": source.similarity}).scorer(source.parameters)
    images, captions = (prepare(jnp.asarray(side)) for side in (ordered.images, ordered.captions))

    def take(prepared: Any, at: np.ndarray) -> Any:
        return jax.tree.map(lambda array: array[at], prepared)

    if transposed:
        return lambda at: np.asarray(score(images, take(captions, at))).T
    return lambda at: np.asarray(score(take(images, at), captions))


def _from_lists(
    source: RankedLists, split: Ids, task: str, queries: np.ndarray, depth: int
) -> list[np.ndarray]:
    lists = source.i2t if task == "i2t" else source.t2i
    known = np.asarray(split.caption_ids if task == "i2t" else split.image_ids)
    if lists is None:
        raise UserError(f"{source.place} has no lists under {task!r}.")
    best = []
    for query in queries:
        if int(query) not in lists:
            raise UserError(f"{source.place} has no list of query {query} under {task!r}.")
        ranked = lists[int(query)]
        best.append(ranked[np.isin(ranked, known)][:depth])
    return best
