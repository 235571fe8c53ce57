"""Cosines of rated pairs, by embeddings or by bags of words."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from data_prep.sampling.groups import positions
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.apps.analysis.ratings.score_statistics import sides_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_WORD = re.compile(r"\w+")
_BLOCK = 65_536  # pairs at a time


Matrix: TypeAlias = Union[np.ndarray, "csr_array"]


@dataclasses.dataclass(frozen=True)
class Vectors:
    """A vector of every item of one kind.

    Attributes:
      ids: int64 [N].
      vectors: floats [N, D].
    """

    ids: np.ndarray
    vectors: Matrix


def count_words(texts: Sequence[str]) -> "csr_array":
    """Counts of every lower-case word of the vocabulary in every text, [N, V]."""
    from scipy.sparse import csr_array  # Slow to import.

    rows, columns = [], []
    vocabulary: dict[str, int] = {}
    for row, text in enumerate(texts):
        for word in _WORD.findall(text.lower()):
            rows.append(row)
            columns.append(vocabulary.setdefault(word, len(vocabulary)))
    shape = len(texts), max(1, len(vocabulary))
    return csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape)


def cosines_of_texts(pairs: RatedPairs) -> np.ndarray:
    """Cosine of the word counts of both sentences, float32 [P]; NaN if one has no word."""
    texts, rows = np.unique(pairs.texts.ravel().astype(str), return_inverse=True)
    left, right = rows.reshape(-1, 2).T
    return _cosines(count_words(texts.tolist()), left, right)


def cosines_of_items(pairs: RatedPairs, vectors: Mapping[str, Vectors]) -> np.ndarray:
    """Cosine of the two items of every pair, float32 [P]; NaN if one has no vector.

    Args:
      pairs: pairs with ids.
      vectors: "caption" and "image" -> vectors in one space.
    """
    found = []
    for kind, ids in zip(sides_of(pairs.rating), (pairs.left_ids, pairs.right_ids), strict=True):
        if kind not in vectors:
            return np.full(len(pairs), np.nan, np.float32)
        found.append((vectors[kind].vectors, positions(vectors[kind].ids, ids)))
    (left, rows_left), (right, rows_right) = found
    known = (rows_left >= 0) & (rows_right >= 0)
    cosines = np.full(len(pairs), np.nan, np.float32)
    cosines[known] = _cosines(left, rows_left[known], rows_right[known], right)
    return cosines


def _cosines(
    left: Matrix, rows_left: np.ndarray, rows_right: np.ndarray, right: Matrix | None = None
) -> np.ndarray:
    right = left if right is None else right
    cosines = np.empty(len(rows_left), np.float32)
    for start in range(0, len(cosines), _BLOCK):
        rows = slice(start, start + _BLOCK)
        a, b = left[rows_left[rows]], right[rows_right[rows]]
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines[rows] = _dots(a, b) / np.sqrt(_dots(a, a) * _dots(b, b))
    return cosines


def _dots(left: Matrix, right: Matrix) -> np.ndarray:
    """Dot products of the rows of two matrices of equal shape, float64 [P]."""
    if not isinstance(left, np.ndarray):
        return np.asarray(left.multiply(right).sum(axis=1), np.float64).ravel()
    return np.einsum("pd,pd->p", left, right, dtype=np.float64)
