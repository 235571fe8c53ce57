"""Reads the files of any model: embeddings by id or by sentence, scores, or ranked lists."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.evals.scores import arrays
from xmodal.evals.scores.arrays import SENTENCE_EMBEDDINGS, SENTENCES
from xmodal.evals.scores.sources import (
    Candidates,
    Embeddings,
    ModelAdapter,
    RankedLists,
    Source,
    refuse_field,
    with_similarity,
)
from xmodal.similarity import LATE_INTERACTIONS, SIMILARITIES, make_similarity

# Difference of two embeddings of one sentence in other batches, of their largest number; in half
# precision and others.
_ROUNDED_HALF, _ROUNDED = 0.03, 3e-5


@dataclasses.dataclass(frozen=True)
class Sentences(ModelAdapter):
    """Embeddings of sentences, which has the captions of any split that are among them.

    Attributes:
      place: names the source in messages.
      rows: text -> its row in `vectors`.
      vectors: float32 or float64, [N, D] or [N, K, D].
      similarity: name in `xmodal.similarity.SIMILARITIES`; "" for none.
      parameters: learned numbers of the similarity; a file of sentences has none.
    """

    place: str
    rows: Mapping[str, int]
    vectors: np.ndarray
    similarity: str = ""
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def items(
        self, split: Any, *, similarity: Mapping[str, Any] | None = None, batch_size: int = 256
    ) -> Embeddings:
        """See `ModelAdapter`; captions are found by their texts."""
        del batch_size
        refuse_field(self.place, similarity)
        rows = [self.rows.get(text.strip(), -1) for text in split.caption_texts]
        missing = [x for x, row in zip(split.caption_texts, rows, strict=True) if row < 0]
        if missing:
            raise UserError(
                f"{self.place} has no embedding for {len(missing):,} of the {len(rows):,} "
                f"sentences of {split.name}; the first is {missing[0]!r}; embed all of them."
            )
        captions = self.vectors[np.array(rows, np.int64)]
        ids = np.asarray(split.caption_ids)
        found = Embeddings(self.place, None, None, ids, captions, self.similarity)
        return with_similarity(found, similarity)


Vectors = TypeVar("Vectors", Embeddings, Sentences)


def open_source(kind: str, given: Any, ids: Any = None, similarity: str | None = None) -> Source:
    """Reads a file by ids.

    Args:
      kind: "embeddings", "scores" or "rankings"; see `arrays.load_embeddings`,
        `arrays.load_scores` and `load_rankings`.
      given: the file, or its content in a mapping.
      ids: ids of a bare matrix of scores.
      similarity: see `choose_similarity`; None for scores and rankings.

    Raises:
      UserError: the file cannot be read, or an argument does not go with it.
    """
    found = open_items(kind, given, ids, similarity)
    if isinstance(found, Sentences):
        raise UserError(f"{found.place} has embeddings of sentences, and ids are needed here.")
    return found


def open_items(
    kind: str, given: Any, ids: Any = None, similarity: str | None = None
) -> Source | Sentences:
    """Reads a file for the splits of prepared datasets: as `open_source`, or by sentence."""
    if kind != "embeddings" and similarity is not None:
        raise UserError(f"Similarity {similarity!r} is for embeddings; {kind} need none.")
    if kind != "scores" and ids is not None:
        raise UserError(f"Ids are for a matrix of scores; {kind} have their own.")
    if kind == "rankings":
        return load_rankings(given)
    if kind == "scores":
        scores = arrays.load_scores(given, ids)
        if isinstance(scores, Candidates) and scores.first is not None:
            return dataclasses.replace(scores, first=choose_similarity(scores.first, None))
        return scores
    if similarity is not None:
        # Before reading a large file.
        lookup("similarity", str(similarity), {**SIMILARITIES, **LATE_INTERACTIONS})
    place, found = arrays.open_arrays(given, kind)
    if SENTENCES in found:
        return choose_similarity(_read_sentences(place, found), similarity)
    return choose_similarity(arrays.read_embeddings(place, found), similarity)


def modalities_of(source: Source | Sentences) -> frozenset[str]:
    """Returns the modalities whose items a file has, of "image" and "text"."""
    if isinstance(source, Sentences):
        return frozenset({"text"})
    return source.modalities if isinstance(source, Embeddings) else frozenset({"image", "text"})


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
    if name in LATE_INTERACTIONS:
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
    tokens: dict[str, Any] = {"options": {}, "tokens": {}}
    tokens = tokens if isinstance(embeddings, Embeddings) else {}
    return dataclasses.replace(embeddings, similarity=name, parameters=parameters, **tokens)


def name_of(source: str | os.PathLike | Mapping[str, Any]) -> str:
    """Returns the name of a model's row from its file."""
    return "model" if isinstance(source, Mapping) else os.path.splitext(os.path.basename(source))[0]


def _read_sentences(place: str, found: Mapping[str, np.ndarray]) -> Sentences:
    """The embeddings of sentences: strings [N], and floats [N, D] or [N, K, D]."""
    texts = found[SENTENCES]
    if texts.ndim != 1 or texts.dtype.kind != "U":
        raise UserError(
            f"{place} has {SENTENCES!r} {texts.dtype} {list(texts.shape)}; sentence embeddings are "
            f"{SENTENCES!r}, strings [N], and {SENTENCE_EMBEDDINGS!r} [N, D]."
        )
    vectors = arrays.read_vectors(found, SENTENCE_EMBEDDINGS, place, len(texts))
    rounded = _ROUNDED_HALF if found[SENTENCE_EMBEDDINGS].dtype.itemsize == 2 else _ROUNDED
    rows: dict[str, int] = {}
    for row, text in enumerate(map(str.strip, texts.tolist())):
        first = rows.setdefault(text, row)
        most = rounded * np.abs(vectors[first]).max()
        if not np.allclose(vectors[first], vectors[row], rtol=0, atol=most):
            raise UserError(
                f"{place} has two different embeddings for {text!r}, in rows {first} and {row}; "
                "keep one of them."
            )
    return Sentences(place, rows, vectors, arrays.read_text(found, arrays.SIMILARITY, place))


def load_rankings(source: str | os.PathLike | Mapping[str, Mapping]) -> RankedLists:
    """Reads ranked lists in the format of the eccv_caption library.

    Args:
      source: JSON file `{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}`, or
        the same as mappings, most similar first. One direction may be missing.
    """
    place = arrays.place_of(source, "rankings")
    content: Any = source if isinstance(source, Mapping) else arrays.read_file(place, _read_json)
    if not isinstance(content, Mapping) or not {"i2t", "t2i"} & set(content):
        found = sorted(content) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{place} holds {found}; rankings are expected under 'i2t' (image id -> caption "
            "ids) and 't2i' (caption id -> image ids)."
        )
    lists = {
        name: _read_lists(content[name], f"{name!r} in {place}") if name in content else None
        for name in ("i2t", "t2i")
    }
    return RankedLists(place, **lists)


def _read_json(path: str) -> Any:
    with open(path, encoding="utf-8-sig") as file:
        return parse_json_text(file.read())


def _read_lists(lists: Any, place: str) -> dict[int, np.ndarray]:
    if not isinstance(lists, Mapping) or not lists:
        raise UserError(f"{place} is not a mapping of query ids to lists of ids.")
    found: dict[int, np.ndarray] = {}
    for key, ranked in lists.items():
        try:
            query, ids = int(key), np.asarray(ranked)
        except (TypeError, ValueError, OverflowError):
            query, ids = 0, np.zeros(0)
        named = ids.ndim == 1 and ids.dtype.kind in "iu" and len(np.unique(ids))
        if not named or named < len(ids) or query in found:
            raise UserError(
                f"The list of query {key!r} under {place} is {ranked!r:.80}; it must be a list of "
                "the integer ids of its items, best first, each once, one for each integer query "
                "id."
            )
        found[query] = ids.astype(np.int64)
    return found
