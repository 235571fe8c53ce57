"""Similarities of two embeddings by name; losses and ranking share one configured object.

A similarity prepares the embeddings of each side once and compares blocks of prepared items.
"""

from xmodal.similarity.similarity import Similarity, SimilarityConfig, make_similarity, select_field
from xmodal.similarity.table import SIMILARITIES, Kind
from xmodal.similarity.vectors import Prepared

__all__ = [
    "SIMILARITIES",
    "Kind",
    "Prepared",
    "Similarity",
    "SimilarityConfig",
    "make_similarity",
    "select_field",
]
