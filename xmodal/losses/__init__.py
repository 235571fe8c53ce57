"""Losses of two views' embeddings over the global batch, and the similarities they share."""

import dataclasses

from xmodal.losses.context import Context, LossFunction
from xmodal.losses.similarity import SIMILARITIES, Similarity, make_similarity
from xmodal.losses.softmax import softmax


@dataclasses.dataclass(frozen=True)
class Loss:
    """A row of the table of losses.

    Attributes:
      function: (left embedding, right embedding or None, context, **options) -> (float32 scalar,
        scalars for the log). Its keyword-only arguments are the options of the config; a number
        may be a 0-d array, a name a `switch.Choice`.
      module: name in `xmodal.models.TASK_MODULES`, for a loss with parameters of its own.
      views: how many views it takes, 1 or 2.
      similarity: whether it compares the views by a similarity.
    """

    function: LossFunction
    module: str = ""
    views: int = 2
    similarity: bool = True


LOSSES: dict[str, Loss] = {
    "softmax": Loss(softmax),
}

__all__ = [
    "LOSSES",
    "SIMILARITIES",
    "Context",
    "Loss",
    "LossFunction",
    "Similarity",
    "make_similarity",
]
