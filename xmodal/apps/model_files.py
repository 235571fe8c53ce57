"""Files of any model, embeddings, scores or rankings: the best items of a query, evaluations."""

import os
from typing import Any, NamedTuple

import numpy as np

from xmodal.api.evaluating import evaluate
from xmodal.apps.arguments import read_names
from xmodal.evals.evaluators.runner import open_galleries, scores_of
from xmodal.evals.scores.files import NamedArrays, open_source
from xmodal.evals.scores.lists import open_lists
from xmodal.evals.scores.score_rows import Scores
from xmodal.evals.scores.sources import Candidates, Ids, RankedLists, Source


def kind_of(path: str) -> str:
    """Returns what a file has: "rankings" (.json), "scores", or "embeddings" (any other .npz)."""
    if path.endswith(".json"):
        return "rankings"
    is_scores = {"scores", "i2t_candidates", "t2i_candidates"} & {*NamedArrays(path)}
    return "scores" if is_scores else "embeddings"


def read_source(path: str, similarity: str | None) -> Source:
    """Reads rankings, scores or embeddings, see `kind_of`."""
    return open_source(kind_of(path), path, similarity=similarity)


def open_queries(source: Source, split: Ids, direction: str, queries: np.ndarray) -> Scores:
    """Returns the scores of some queries with the gallery of a split; -inf for unlisted items.

    Args:
      source: source of one model.
      split: the queries and the galleries; other items of a model are ignored.
      direction: `i2t` or `t2i`.
      queries: int [Q], their ids.
    """
    ids = np.asarray(split.image_ids), np.asarray(split.caption_ids)
    items = _Items(queries, ids[1]) if direction == "i2t" else _Items(ids[0], queries)
    if isinstance(source, RankedLists | Candidates):
        return open_lists(source, items, direction)
    return scores_of(open_galleries(source, items), direction)


def best_items(
    source: Source, split: Ids, direction: str, queries: np.ndarray, depth: int
) -> list[np.ndarray]:
    """Returns the best items of every query, best first, ties in the order of the gallery.

    Args:
      source: source of one model.
      split: the queries and the galleries; other items of a model are ignored.
      direction: `i2t` or `t2i`.
      queries: int [Q], their ids.
      depth: number of items; fewer if the gallery or a ranked list has fewer.

    Returns:
      Q arrays of ids.
    """
    ids = np.asarray(split.caption_ids if direction == "i2t" else split.image_ids)
    found = open_queries(source, split, direction, queries).best_items(depth)
    return [ids[row[row >= 0]] for row in found]


def evaluate_files(
    models: list[str], annotations: list[str], output: str, similarity: str | None
) -> list[str]:
    """Evaluates files on every folder of labels; returns the folders of the results.

    Args:
      models: `[NAME=]FILE`.
      annotations: `[NAME=]FOLDER` of labels, see `xmodal.evaluate`.
      output: folder for the results, in `LABELS/MODEL`.
      similarity: for embeddings whose file names none.
    """
    files, folders = read_names(models), []
    for labels, place in read_names(annotations).items():
        for name, path in files.items():
            given: dict[str, Any] = {kind_of(path): path, "similarity": similarity}
            folders.append(os.path.join(output, labels, name))
            evaluate(**given, annotations=place, name=name).save(folders[-1])
            print(folders[-1], flush=True)
    return folders


class _Items(NamedTuple):
    """See `Ids`."""

    image_ids: np.ndarray
    caption_ids: np.ndarray
