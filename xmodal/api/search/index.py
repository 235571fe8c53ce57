"""An index of images and captions, searched by a text or a picture."""

import functools
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from absl import logging

from xmodal.api.item_embeddings import ItemEmbeddings, tokens_of
from xmodal.api.model import Model
from xmodal.api.search import KINDS, METHODS, storage
from xmodal.api.search.approximate import (
    TOP,
    ApproximateSearch,
    SearchParameters,
    build_lists,
    has_faiss,
)
from xmodal.api.search.exact import ExactSearch, Scorer
from xmodal.api.search.gallery import IndexGallery, Quality, check_finite, embed, embed_items
from xmodal.api.search.hits import Hit, rank_pairs
from xmodal.api.search.items import SearchItems, from_values
from xmodal.api.search.reranked import FIRST_STAGE, RerankedSearch
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.progress import progress
from xmodal.data.text.text_counts import is_blank
from xmodal.evals.scores.score_blocks import HostItems

_WORTH_LISTS = 20_000  # Fewer items are compared exactly in milliseconds.
_SAMPLE = 256


class Index:
    """Finds images and captions.

        index = xmodal.Index.build(model, images=["a.jpg", "b.jpg"])
        index.query("a dog on a beach", top=5)
        index.save("indexes/mine")

    Attributes:
      model: embeds queries.
      galleries: "image" and "caption" -> items, if there are any.
    """

    def __init__(self, model: Model, galleries: Mapping[str, IndexGallery]) -> None:
        """Assembles an index from its parts; use `build` or `open` instead."""
        self.model, self.galleries = model, dict(galleries)
        self._compares_tokens = model.measure[0].module is not None
        # Chooses the candidates of a similarity of tokens, too.
        self._compared = FIRST_STAGE.name if self._compares_tokens else model.similarity_name
        # Not decorators of the methods, which would keep every index for good.
        self._exact = functools.cache(self._make_exact)
        self._scorer = functools.cache(self._make_scorer)

    def __repr__(self) -> str:
        items = (f"{len(each.names):,} {kind}s" for kind, each in self.galleries.items())
        return f"<xmodal.Index of {self.model.name}: {', '.join(items)}>"

    @classmethod
    def build(
        cls,
        model: Model,
        *,
        images: Iterable[Any] | SearchItems = (),
        captions: Iterable[str] | SearchItems = (),
        method: str = "auto",
        recall: float = 0.95,
    ) -> Self:
        """Embeds items.

        Args:
          model: a model from `xmodal.load`.
          images: images for `Model.embed_images`; all of an iterator are kept in memory.
          captions: strings.
          method: "exact", "approximate" (with faiss), or "auto": approximate from 20,000 items on,
            if faiss is installed.
          recall: smallest share of the exact top ten that approximate search must find.

        Raises:
          UserError: there is nothing to index, or an item cannot be embedded.
        """
        lookup("method", method, dict.fromkeys(METHODS))
        if not 0 < recall <= 1:
            raise UserError(f"recall is {recall}; it must be more than 0 and at most 1.")
        given = {"image": _as_items("image", images), "caption": _as_items("caption", captions)}
        items = {kind: each for kind, each in given.items() if len(each.names)}
        if not items:
            raise UserError("There is nothing to index: pass images, captions or both.")
        index = cls(model, embed_items(model, items))
        for kind, gallery in index.galleries.items():
            many = len(gallery.names) >= _WORTH_LISTS and has_faiss()
            if method == "approximate" or (method == "auto" and many):
                with progress(f"Tuning approximate search of {len(gallery.names):,} {kind}s", 1):
                    index._add_lists(kind, recall)
        return index

    @classmethod
    def open(
        cls, folder: str | os.PathLike, *, model: Model | str | os.PathLike | None = None
    ) -> Self:
        """Returns an index that was saved.

        Args:
          folder: folder written by `save` or `python -m xmodal search build`.
          model: model that embedded the items, or its folder, if it was moved or exported as a
            bundle; by default its original location. Of a run, the step of the index is used.

        Raises:
          UserError: the folder is not an index, is damaged, or belongs to another model.
        """
        return cls(*storage.read_index(folder, model))

    def save(self, folder: str | os.PathLike) -> None:
        """Writes a folder, which gets its name when it is complete.

        Raises:
          UserError: the folder already exists.
        """
        storage.write_index(folder, self.model, self.galleries)

    def query(
        self,
        text: str | None = None,
        *,
        image: Any = None,
        top: int = 10,
        find: str | None = None,
        exact: bool = False,
        upright: bool = True,
        rerank: int = 0,
        first_stage_weight: float | None = None,
    ) -> list[Hit]:
        """Returns the items most similar to a text or a picture, best first.

        Args:
          text: the query as text.
          image: the query as an image for `Model.embed_images`; either this or `text`.
          top: largest number of hits.
          find: "image" or "caption"; by default images, if there are any.
          exact: whether to compare all items even if approximate search is available.
          upright: see `Model.embed_images`; False for a picture of a dataset.
          rerank: number of hits that the model's cross-encoder ranks again, `top` if that is more;
            0 for none. Pictures are read from their files.
          first_stage_weight: multiplies the similarity, which is added to the score of a pair, as
            the reranker of evaluators does; by default that of the model's run.

        Raises:
          UserError: an argument does not fit the index or the model.
        """
        if (text is None) == (image is None):
            raise UserError("Pass either a text or an image as the query.")
        if isinstance(text, str) and is_blank(text):
            raise UserError(f"The query {text!r:.80} is empty: pass a text with words.")
        _check_count("top", top, 1)
        _check_count("rerank", rerank, 0)
        if first_stage_weight is not None and not rerank:
            raise UserError("first_stage_weight is an option of rerank, the number of hits.")
        kind, query = ("caption", text) if image is None else ("image", image)
        find = self._choose(find)
        if rerank and find == kind:
            raise UserError("A cross-encoder compares images with texts: search the other kind.")
        vectors = embed(self.model, kind, [query], upright=upright)
        (hits,) = self.query_vectors(vectors, kind, top=max(top, rerank), find=find, exact=exact)
        if rerank:
            how: Any = {"first_stage_weight": first_stage_weight}
            how["upright"] = upright or image is None
            hits = rank_pairs(self.model, query, kind, hits, **how)
        return hits[:top]

    def describe_query(self, text: str | None) -> list[str]:
        """Returns a note if the model knows no word of a text."""
        if text is None or not self.model.count_texts([text]).unknown:
            return []
        return ["The model knows no word of the query, so it cannot tell it from other texts."]

    def query_vectors(
        self,
        vectors: np.ndarray | ItemEmbeddings,
        kind: str,
        *,
        top: int = 10,
        find: str | None = None,
        exact: bool = False,
    ) -> list[list[Hit]]:
        """Returns the hits of several queries.

        Args:
          vectors: float32 [Q, D] or [Q, K, D], from the model; with their tokens, if the model
            compares tokens.
          kind: kind of the queries, "image" or "caption".
          top: see `query`.
          find: see `query`.
          exact: see `query`.

        Raises:
          UserError: an argument does not fit the index.
        """
        _check_count("top", top, 1)
        lookup("kind", kind, dict.fromkeys(KINDS))
        find = self._choose(find)
        gallery = self.galleries[find]
        if self._compares_tokens:
            tokens_of(vectors)
        else:
            vectors = np.asarray(vectors, np.float32)
        if vectors.shape[1:] != gallery.vectors.shape[1:]:
            raise UserError(
                f"Queries of shape {list(vectors.shape)} cannot be compared with items of shape "
                f"{list(gallery.vectors.shape)}: embed them with the model of the index."
            )
        check_finite(vectors, "query")
        if not len(vectors):
            return []
        search: Any = self._exact(find, kind)
        if gallery.lists is not None and not exact:
            search = self._approximate(find, kind)
        if self._compares_tokens:
            search = self._rerank(search, find, kind)
        found = search(vectors, min(top, len(gallery.names)))
        return [
            [
                Hit(rank, int(row), gallery.names[row], float(score), self.model.similarity_name)
                for rank, (score, row) in enumerate(zip(*each, strict=True), start=1)
                if row >= 0
            ]
            for each in zip(*found, strict=True)
        ]

    def _choose(self, find: str | None) -> str:
        """The kind of the items to find."""
        find = find or next(each for each in KINDS if each in self.galleries)
        if find not in self.galleries:
            raise UserError(f"The index has no {find}; it has {sorted(self.galleries)}.")
        return find

    def _make_exact(self, find: str, kind: str) -> Any:
        return ExactSearch(self._scorer(find, kind), self.galleries[find].vectors)

    def _approximate(self, find: str, kind: str) -> ApproximateSearch:
        gallery, scorer = self.galleries[find], self._scorer(find, kind)
        return ApproximateSearch(
            gallery.lists, self._compared, scorer, gallery.vectors, gallery.effort
        )

    def _rerank(self, search: Any, find: str, kind: str) -> RerankedSearch:
        """The search by tokens among the items that a search by vectors finds."""
        if find == kind:
            raise UserError(
                f"Similarity {self.model.similarity_name!r} compares images with texts, so the "
                f"query of {find}s cannot be of the same kind."
            )
        items = HostItems(self.galleries[find].vectors, tokens_of(self.galleries[find]))
        return RerankedSearch(search, *self.model.measure, items, items_left=find == "image")

    def _make_scorer(self, find: str, kind: str) -> Scorer:
        # Images are on the left; for two items of the same kind, the query is.
        items_left = find == "image" and kind == "caption"
        if self._compares_tokens:
            return Scorer(FIRST_STAGE, {}, items_left=items_left)
        similarity, vectors = self.model.measure[0], self.galleries[find].vectors
        offset, dtype = similarity.find_offset(vectors), similarity.choose_precision()
        return Scorer(*self.model.measure, items_left=items_left, offset=offset, dtype=dtype)

    def _add_lists(self, kind: str, recall: float) -> None:
        """Builds faiss's index with the effort that reaches the recall; none if no effort does."""
        gallery = self.galleries[kind]
        # Captions are queries for images and images for captions, if there are both.
        asking = next((each for each in self.galleries if each != kind), kind)
        placed = self._scorer(kind, asking).place(gallery.vectors)
        gallery.lists = build_lists(self._compared, placed)
        asked = self.galleries[asking].vectors
        rng = np.random.default_rng(0)
        rows = rng.choice(len(asked), min(_SAMPLE, len(asked)), replace=False)
        queries = np.asarray(asked[np.sort(rows)])
        exact, approximate = self._exact(kind, asking), self._approximate(kind, asking)
        top = min(TOP, len(gallery.names))
        _, truth = exact(queries, top)
        gallery.effort, found = approximate.tune(queries, truth, recall)
        if found < recall:
            logging.warning(
                "Approximate search finds %.3f of the exact top %d %ss, less than recall=%s, even "
                "with %d candidates per hit: search is exact.",
                *(found, top, kind, recall, gallery.effort.candidates),
            )
            gallery.lists, gallery.effort = None, SearchParameters()
            return
        milliseconds = []
        for search in (exact, approximate):
            started = time.perf_counter()
            search(queries, top)
            milliseconds.append(1000 * (time.perf_counter() - started) / len(queries))
        gallery.quality = Quality(found, milliseconds[0], milliseconds[1], f"{asking}s")


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name} is {value!r}; it must be an integer of at least {least}.")


def _as_items(kind: str, given: Iterable[Any] | SearchItems) -> SearchItems:
    if isinstance(given, SearchItems):
        return given
    # The letters of a string would be captions.
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise UserError(f"{kind}s={str(given)[:80]!r}: pass several {kind}s; put one in a list.")
    return from_values(given if isinstance(given, Sequence | np.ndarray) else list(given))
