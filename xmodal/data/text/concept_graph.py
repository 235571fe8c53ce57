"""The concepts of CVSE: their words, and the graph of their joint occurrence.

Wang et al., "Consensus-Aware Visual-Semantic Embedding for Image-Text Matching" (ECCV 2020),
section 3.2, and the authors' code, BruceW91/CVSE.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.core.errors import UserError

# Shares of captions are scaled as 5^(share - 0.02) - 5^-0.02; from 0.3 on, concepts are connected.
_BASE, _SHIFT, _LEAST = 5.0, 0.02, 0.3
# The sum of the weights of the neighbors of a concept, whose own weight is 1.
_NEIGHBORS = 0.25


@dataclasses.dataclass(frozen=True, eq=False)
class Concepts:
    """K concepts.

    Attributes:
      words: their words.
      forms: each word that names a concept, also in the plural -> the number of that concept.
      captions: number of captions that name each concept, int64 [K].
      joint: number of captions that name both of two concepts, int64 [K, K], symmetric; 0 on the
        diagonal.
      vectors: word vectors of the concepts, float32 [K, E]; None if the file has none.
    """

    words: Sequence[str]
    forms: Mapping[str, int]
    captions: np.ndarray
    joint: np.ndarray
    vectors: np.ndarray | None = None

    def adjacency(self) -> np.ndarray:
        """Returns the normalized adjacency matrix of the graph of concepts, float32 [K, K]."""
        shares = self.joint / np.maximum(self.captions, 1)[:, None]
        scaled = _BASE ** (shares - _SHIFT) - _BASE**-_SHIFT
        connected = (scaled >= _LEAST).astype(np.float64)
        weights = connected * _NEIGHBORS / (connected.sum(axis=0, keepdims=True) + 1e-6)
        return normalize_adjacency(weights + np.eye(len(weights)))

    def concept_of_word(self, vocabulary: Sequence[str]) -> np.ndarray:
        """Returns the number of the concept that each word names, K for none, int32 [V]."""
        none = len(self.words)
        return np.array([self.forms.get(word, none) for word in vocabulary], np.int32)


def normalize_adjacency(weights: np.ndarray) -> np.ndarray:
    """Returns (A D)^T D, where D has the inverse roots of the sums of A's rows, float32 [K, K]."""
    roots = np.sum(weights, axis=1) ** -0.5
    return ((weights * roots).T * roots).astype(np.float32)


def parse_concepts(content: Mapping[str, Any]) -> Concepts:
    """Returns the concepts of a file's content, see `data_prep.concept_counts.count_concepts`.

    Raises:
      ValueError: it is not such content. Also KeyError, TypeError, IndexError and OverflowError.
    """
    words = [str(word) for word in content["concepts"]]
    joint = np.zeros((len(words), len(words)), np.int64)
    for row, column, number in content["joint"]:
        joint[row, column] = joint[column, row] = number
    captions = np.asarray(content["captions"], np.int64)
    forms = {str(word): int(number) for word, number in content["forms"].items()}
    given = content.get("vectors")
    vectors = None if given is None else np.asarray(given, np.float32)
    return Concepts(words, forms, captions, joint, vectors)


def read_concepts(path: str | os.PathLike) -> Concepts:
    """Returns the concepts of a file that `python -m data_prep.concepts` wrote."""
    try:
        return parse_concepts(json.loads(epath.Path(path).read_text(encoding="utf-8")))
    except (OSError, AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not a file of `python -m data_prep.concepts` ({error}); write it again."
        ) from error
