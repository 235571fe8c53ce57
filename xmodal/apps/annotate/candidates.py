"""The best items of a query, from any model's embeddings, scores or rankings."""

from typing import NamedTuple

import numpy as np

from xmodal.evals.evaluators.runner import open_galleries, scores_of
from xmodal.evals.scores.files import NamedArrays, open_source
from xmodal.evals.scores.score_rows import top_items
from xmodal.evals.scores.sources import Candidates, Ids, RankedLists, Source

# Direction -> the ids of its queries and of its gallery.
_KINDS = {"i2t": ("image_ids", "caption_ids"), "t2i": ("caption_ids", "image_ids")}


def read_source(path: str, similarity: str | None) -> Source:
    """Reads rankings (.json), scores (.npz with `scores`) or embeddings (any other .npz)."""
    if path.endswith(".json"):
        return open_source("rankings", path)
    arrays = NamedArrays(path)
    if "scores" in arrays:
        return open_source("scores", path)
    return open_source("embeddings", path, similarity=similarity)


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
    kind, found = _KINDS[direction]
    ids = {"image_ids": np.asarray(split.image_ids), "caption_ids": np.asarray(split.caption_ids)}
    if isinstance(source, RankedLists):
        lists, known = source.directions.get(direction, {}), ids[found]
        ranked = [lists.get(query, known[:0]) for query in queries.tolist()]
        return [items[np.isin(items, known)][:depth] for items in ranked]
    assert not isinstance(source, Candidates), "`read_source` reads none"
    if not len(queries):
        return []
    items = _Items(**{**ids, kind: np.asarray(queries)})
    scores = scores_of(open_galleries(source, items), direction)
    # Ties are broken by the order of the gallery, as in an evaluation.
    blocks = scores.blocks(np.arange(len(queries)))
    return [ids[found][best] for _, rows in blocks for best in top_items(rows, depth)]


class _Items(NamedTuple):
    """See `Ids`."""

    image_ids: np.ndarray
    caption_ids: np.ndarray
