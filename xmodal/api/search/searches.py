"""Makes the search of a gallery by queries of a kind: exact, approximate, or by tokens."""

from collections.abc import Mapping

import numpy as np
from absl import logging

from xmodal.api.item_embeddings import tokens_of
from xmodal.api.model import Model
from xmodal.api.search import nearest
from xmodal.api.search.gallery import IndexGallery
from xmodal.core.errors import UserError
from xmodal.evals.scores.score_blocks import HostItems
from xmodal.similarity import make_similarity

_SAMPLE = 256  # Queries that approximate search is tuned with.


def make_search(
    model: Model, galleries: Mapping[str, IndexGallery], find: str, kind: str, corrects: bool
) -> nearest.Search:
    """Returns the search of the items of a kind.

    Args:
      model: compares items with queries.
      galleries: items by kind.
      find: kind of the items.
      kind: kind of the queries.
      corrects: whether scores of texts with images of the training are corrected.
    """
    gallery, (similarity, parameters) = galleries[find], model.measure
    vectors = gallery.vectors
    scorer, losses = make_scorer(model, vectors, find, kind), find_losses(gallery, kind, corrects)
    search: nearest.Search = (
        nearest.ExactSearch(scorer, vectors, losses)
        if gallery.lists is None
        else nearest.ApproximateSearch(scorer, vectors, losses, gallery.lists, gallery.probes)
    )
    if similarity.module is None:
        return search
    if find == kind:
        raise UserError(
            f"Similarity {similarity.name!r} compares images with texts, so the query of "
            f"{find}s cannot be of the same kind."
        )
    found = HostItems(vectors, tokens_of(gallery))
    return nearest.rerank(search, similarity, parameters, found, items_left=find == "image")


def find_losses(gallery: IndexGallery, kind: str, corrects: bool) -> np.ndarray:
    """Returns what the scores of items with queries of a kind lose, float32 [N]."""
    if corrects and kind == "caption" and gallery.penalties is not None:
        return gallery.penalties
    return np.zeros(len(gallery.names), np.float32)


def make_scorer(model: Model, vectors: np.ndarray, find: str, kind: str) -> nearest.Scorer:
    """Compares the vectors of items and queries; a similarity of tokens takes the nearest."""
    similarity, parameters = model.measure
    if similarity.module is not None:
        return nearest.Scorer(make_similarity({"name": "cosine"}), {})
    return nearest.Scorer(
        similarity,
        parameters,
        # Images are on the left; for two items of the same kind, the query is.
        items_left=find == "image" and kind == "caption",
        offset=similarity.find_offset(vectors),
        dtype=similarity.choose_precision(),
    )


def add_lists(
    model: Model,
    galleries: Mapping[str, IndexGallery],
    kind: str,
    least: float,
    bank: np.ndarray | None,
) -> None:
    """Builds faiss's index, unless even a search of all its lists misses the recall.

    Args:
      model: compares items with queries.
      galleries: items by kind. Captions are queries for images and images for captions, if there
        are both.
      kind: kind of the items that are searched.
      least: recall to reach.
      bank: texts that are queries for images in place of the captions, if there are any.
    """
    gallery = galleries[kind]
    asking = next((each for each in galleries if each != kind), kind)
    asked = galleries[asking].vectors
    if kind == "image" and bank is not None:
        asking, asked = "caption", bank
    rng = np.random.default_rng(0)
    rows = rng.choice(len(asked), min(_SAMPLE, len(asked)), replace=False)
    queries, top = np.asarray(asked[np.sort(rows)]), min(nearest.TOP, len(gallery.names))
    scorer = make_scorer(model, gallery.vectors, kind, asking)
    items = scorer, gallery.vectors, find_losses(gallery, asking, True)
    _, truth = nearest.ExactSearch(*items)(queries, top)
    approximate = nearest.ApproximateSearch(*items)
    recall = approximate.tune(queries, truth, least)
    if recall >= least:
        gallery.lists, gallery.probes = approximate.lists, approximate.probes
        gallery.recall = recall
    else:
        logging.warning(
            "Approximate search finds %.3f of the exact top %d %ss, less than recall=%s: "
            "search is exact.",
            *(recall, top, kind, least),
        )
