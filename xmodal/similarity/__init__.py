"""Similarities of two embeddings by name; losses and ranking share one configured object.

A similarity prepares the embeddings of each side once and compares blocks of prepared items.
"""

from xmodal.similarity.embedding import Embedding
from xmodal.similarity.late_interaction import LateInteraction, Observer, PairCost
from xmodal.similarity.similarity import Similarity, SimilarityConfig, make_similarity, select_field
from xmodal.similarity.table import LATE_INTERACTIONS, SIMILARITIES, Kind
from xmodal.similarity.vectors import Prepared

__all__ = [
    "LATE_INTERACTIONS",
    "SIMILARITIES",
    "Embedding",
    "Kind",
    "LateInteraction",
    "Observer",
    "PairCost",
    "Prepared",
    "Similarity",
    "SimilarityConfig",
    "make_similarity",
    "select_field",
]
