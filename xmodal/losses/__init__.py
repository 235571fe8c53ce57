"""Losses of two views' embeddings over the global batch."""

import dataclasses

from xmodal.losses.context import ChunkSize, Context, LossFunction, NonNegative
from xmodal.losses.contrastive import momentum_softmax, sigmoid, soft_contrastive, softmax
from xmodal.losses.correlation import covariance, pearson, soft_kendall
from xmodal.losses.matching import matching, pair_softmax
from xmodal.losses.module_outputs import caption_generation, relation_bce
from xmodal.losses.regularizers import concept_divergence, diversity, mmd, uniformity
from xmodal.losses.triplet import distance_triplet, quintuplet, triplet


@dataclasses.dataclass(frozen=True)
class Loss:
    """A row of the table of losses.

    Attributes:
      function: (left embedding, right embedding or None, context, **options) -> (float32 scalar,
        scalars for the log). Its keyword-only arguments are the options of the config; a number
        may be a 0-d array.
      module: name in `xmodal.models.TASK_MODULES`, for a loss with its own parameters.
      views: how many views it takes.
      pairs: whether it trains the model's cross-encoder, on an image and a text.
      mined: whether it compares mined negatives of an image and a text, see `Context.mined`.
      directed: whether it computes something else if a text is the left view and an image the
        right one.
    """

    function: LossFunction
    module: str = ""
    views: tuple[int, ...] = (2,)
    pairs: bool = False
    mined: bool = False
    directed: bool = False

    @property
    def image_first(self) -> bool:
        """Whether its two views must be an image and a text, in this order."""
        return self.pairs or self.mined or self.directed


LOSSES: dict[str, Loss] = {
    "caption_generation": Loss(caption_generation, module="caption_decoder", directed=True),
    "concept_divergence": Loss(concept_divergence, directed=True),
    "covariance": Loss(covariance),
    "distance_triplet": Loss(distance_triplet),
    "diversity": Loss(diversity),
    "language_model": Loss(
        caption_generation, module="language_model", views=(1, 2), directed=True
    ),
    "matching": Loss(matching, pairs=True),
    "mmd": Loss(mmd),
    "momentum_softmax": Loss(momentum_softmax, module="momentum_queue"),
    "pair_softmax": Loss(pair_softmax, pairs=True),
    "pearson": Loss(pearson),
    "quintuplet": Loss(quintuplet, mined=True),
    "relation_bce": Loss(relation_bce, module="relation_classifier", views=(1, 2)),
    "sigmoid": Loss(sigmoid),
    "soft_contrastive": Loss(soft_contrastive),
    "soft_kendall": Loss(soft_kendall),
    "softmax": Loss(softmax),
    "triplet": Loss(triplet),
    "uniformity": Loss(uniformity),
}

__all__ = ["LOSSES", "ChunkSize", "Context", "Loss", "LossFunction", "NonNegative"]
