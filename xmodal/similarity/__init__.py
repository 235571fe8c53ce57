"""Similarities of two embeddings by name; losses and ranking share one configured object.

A similarity prepares the embeddings of each side once and compares blocks of prepared items.
"""

from xmodal.similarity.embedding import Embedding
from xmodal.similarity.interface import Prepared
from xmodal.similarity.similarity import (
    LATE_INTERACTIONS,
    SIMILARITIES,
    Similarity,
    make_similarity,
    select_field,
)

__all__ = [
    "LATE_INTERACTIONS",
    "SIMILARITIES",
    "Embedding",
    "Prepared",
    "Similarity",
    "make_similarity",
    "select_field",
]
