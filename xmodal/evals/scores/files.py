"""Reads the files of any model: embeddings, scores or ranked lists."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, TypeVar

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.evals.scores import arrays, lists
from xmodal.evals.scores.sentences import Sentences, read_sentences
from xmodal.evals.scores.sources import Candidates, Embeddings, Source
from xmodal.similarity import PAIR_MODULES, SIMILARITIES, make_similarity

Vectors = TypeVar("Vectors", Embeddings, Sentences)


def open_source(kind: str, given: Any, ids: Any = None, similarity: str | None = None) -> Source:
    """Reads a file by ids.

    Args:
      kind: "embeddings", "scores" or "rankings"; see `arrays.load_embeddings`,
        `arrays.load_scores` and `lists.load_rankings`.
      given: the file, or its content in a mapping.
      ids: ids of a bare matrix of scores.
      similarity: see `choose_similarity`; None for scores and rankings.

    Raises:
      UserError: the file cannot be read, or an argument does not go with it.
    """
    if kind != "embeddings" and similarity is not None:
        raise UserError(f"Similarity {similarity!r} is for embeddings; {kind} need none.")
    if kind == "scores":
        scores = arrays.load_scores(given, ids)
        if isinstance(scores, Candidates) and scores.first is not None:
            return dataclasses.replace(scores, first=choose_similarity(scores.first, None))
        return scores
    if ids is not None:
        raise UserError(f"Ids are for a matrix of scores; {kind} have their own.")
    if kind == "rankings":
        return lists.load_rankings(given)
    if similarity is not None:
        # Before reading a large file.
        lookup("similarity", str(similarity), {**SIMILARITIES, **PAIR_MODULES})
    return choose_similarity(arrays.load_embeddings(given), similarity)


def open_items(
    kind: str, given: Any, ids: Any = None, similarity: str | None = None
) -> Source | Sentences:
    """Reads a file for the splits of prepared datasets: as `open_source`, or by sentence.

    Raises:
      UserError: see `open_source`.
    """
    if kind != "embeddings" or ids is not None:
        return open_source(kind, given, ids, similarity)
    place, found = arrays.open_arrays(given, kind)
    if arrays.SENTENCES in found:
        return choose_similarity(read_sentences(place, found), similarity)
    return choose_similarity(arrays.read_embeddings(place, found), similarity)


def sides_of(source: Source | Sentences) -> frozenset[str]:
    """Returns the sides whose items a file has, of "image" and "text"."""
    if isinstance(source, Sentences):
        return frozenset({"text"})
    return source.sides if isinstance(source, Embeddings) else frozenset({"image", "text"})


def choose_similarity(embeddings: Vectors, similarity: str | None) -> Vectors:
    """Returns the embeddings with the requested similarity, else with that of the file.

    Raises:
      UserError: there is none, or a number that it needs is missing.
    """
    name = similarity or embeddings.similarity
    if not name:
        raise UserError(
            f"Name the similarity that the model ranks by, one of {sorted(SIMILARITIES)}: they "
            "rank differently, so there is no default."
        )
    if name in PAIR_MODULES:
        if name != embeddings.similarity or not getattr(embeddings, "tokens", None):
            raise UserError(
                f"Similarity {name!r} compares tokens by parameters that the model learns, and "
                f"{embeddings.place} has none of it; name a similarity of vectors."
            )
        return embeddings
    chosen = make_similarity({"name": name}, "similarity")
    # A file may hold the numbers of a similarity that was not requested.
    needed = chosen.parameters
    parameters = {key: value for key, value in embeddings.parameters.items() if key in needed}
    chosen.scorer(parameters)  # Raises an error here if a number is missing.
    changes: dict[str, Any] = {"similarity": name, "parameters": parameters}
    if isinstance(embeddings, Embeddings):
        changes |= {"options": {}, "tokens": {}}
    return dataclasses.replace(embeddings, **changes)


def name_of(source: str | os.PathLike | Mapping[str, Any]) -> str:
    """Returns the name of a model's row from its file."""
    return "model" if isinstance(source, Mapping) else os.path.splitext(os.path.basename(source))[0]
