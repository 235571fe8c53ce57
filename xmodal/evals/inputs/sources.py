"""What boards are judged from: embeddings, a score matrix, or ranked lists, in gallery order."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from xmodal.evals.boards.ragged import Ragged


@dataclasses.dataclass(frozen=True)
class Embeddings:
    """Embeddings of one or both galleries.

    Attributes:
      image: float32 [N, D], or [N, K, D] with K embeddings per item; None if there are none.
      text: float32 [M, D] or [M, K, D], or None.
      similarity: name in `xmodal.losses.similarity.SIMILARITIES`.
      parameters: learnt numbers of the similarity.
    """

    image: np.ndarray | None
    text: np.ndarray | None
    similarity: str
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ScoreMatrix:
    """Scores of every image with every caption, for models that read pairs.

    Attributes:
      matrix: [N, M] of any float type, in memory or mapped from a file.
    """

    matrix: np.ndarray


@dataclasses.dataclass(frozen=True)
class RankedLists:
    """Ranked lists; a query without a list has an empty row.

    Attributes:
      i2t: for every image, captions by falling similarity; None if there are none.
      t2i: for every caption, images by falling similarity, or None.
    """

    i2t: Ragged | None
    t2i: Ragged | None


Source = Embeddings | ScoreMatrix | RankedLists
