"""A file of sentence embeddings: vectors by text, for any split of sentences or captions."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.scores.arrays import SENTENCE_EMBEDDINGS, SENTENCES, read_text, read_vectors
from xmodal.evals.scores.sources import Embeddings, Provider, refuse_field, with_similarity


class Captions(Protocol):
    """The captions of a split.

    Attributes:
      name: name of its dataset.
      caption_ids: int [M].
      caption_texts: M strings.
    """

    name: str
    caption_ids: np.ndarray
    caption_texts: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Sentences(Provider):
    """Embeddings of sentences, which has the captions of any split that are among them.

    Attributes:
      place: names the source in messages.
      rows: text -> its row in `vectors`.
      vectors: float32 or float64, [N, D] or [N, K, D].
      similarity: name in `xmodal.similarity.SIMILARITIES`; "" for none.
      parameters: learned numbers of the similarity; a file of sentences has none.
      notes: how many sentences have several embeddings that differ by rounding.
    """

    place: str
    rows: Mapping[str, int]
    vectors: np.ndarray
    similarity: str = ""
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: Sequence[str] = ()

    def items(
        self,
        split: Captions,
        *,
        similarity: Mapping[str, Any] | None = None,
        batch_size: int = 256,
    ) -> Embeddings:
        """See `Provider`; captions are found by their texts."""
        del batch_size
        refuse_field(self.place, similarity)
        rows = [self.rows.get(text.strip(), -1) for text in split.caption_texts]
        if missing := [
            text for text, row in zip(split.caption_texts, rows, strict=True) if row < 0
        ]:
            raise UserError(
                f"{self.place} has no embedding for {len(missing):,} of the {len(rows):,} "
                f"sentences of {split.name}; the first is {missing[0]!r}; embed all of them."
            )
        captions = self.vectors[np.array(rows, np.int64)]
        ids = np.asarray(split.caption_ids)
        found = Embeddings(self.place, None, None, ids, captions, self.similarity)
        return with_similarity(found, similarity)


def read_sentences(place: str, arrays: Mapping[str, np.ndarray]) -> Sentences:
    """Returns the embeddings of sentences in arrays of a place.

    Args:
      place: names the arrays in messages.
      arrays: `sentences`, strings [N], and `sentence_embeddings` [N, D] or [N, K, D]; `similarity`,
        a name, is optional.

    Raises:
      UserError: the arrays do not fit together, or a sentence has two different embeddings.
    """
    texts, given = arrays[SENTENCES], arrays.get(SENTENCE_EMBEDDINGS)
    if given is None or texts.ndim != 1 or texts.dtype.kind != "U":
        raise UserError(
            f"{place} has {SENTENCES!r} {texts.dtype} {list(texts.shape)}; sentence embeddings are "
            f"{SENTENCES!r}, strings [N], and {SENTENCE_EMBEDDINGS!r} [N, D]."
        )
    vectors = read_vectors(given, len(texts), f"{SENTENCE_EMBEDDINGS} in {place}")
    rows: dict[str, int] = {}
    rounded = set()
    for row, text in enumerate(map(str.strip, texts.tolist())):
        first = rows.setdefault(text, row)
        if first == row or np.array_equal(vectors[first], vectors[row]):
            continue
        kept, other = (vectors[each].astype(np.float64) for each in (first, row))
        length = max(np.linalg.norm(kept), np.linalg.norm(other))
        if (difference := np.linalg.norm(kept - other) / length) > _tolerance(given.dtype):
            raise UserError(
                f"{place} has two different embeddings for {text!r}, in rows {first} and {row}, "
                f"which differ by {difference:.1e} of their length; keep one of them."
            )
        rounded.add(text)
    notes = []
    if rounded:
        notes.append(
            f"{len(rounded):,} of {len(rows):,} sentences have several embeddings that differ by "
            f"rounding, such as {min(rounded, key=rows.__getitem__)!r:.80}; the first one counts."
        )
    return Sentences(place, rows, vectors, read_text(arrays, "similarity", place), notes=notes)


def _tolerance(dtype: np.dtype) -> float:
    """Difference of two embeddings of one sentence, relative to their length, that is rounding.

    A model computes in float32 or less and sums in another order in another batch; numbers in half
    precision, float16 or bfloat16 (2 bytes that NumPy cannot name), are rounded once more.
    """
    is_named = np.issubdtype(dtype, np.floating)
    epsilon = np.finfo(dtype).eps if is_named else ml_dtypes.finfo(ml_dtypes.bfloat16).eps
    return max(64 * float(np.finfo(np.float32).eps), 4 * float(epsilon))
