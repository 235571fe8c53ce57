"""The modes in which a part of a model runs."""

import enum


class Mode(enum.Enum):
    """A mode in which a part of a model runs.

    Attributes:
      EVALUATE: no part of the model is being trained.
      FROZEN: the rest of the model is being trained, but no parameter of this part is. The part
        computes as in evaluation, except for batch normalization with the policy "batch_frozen".
      TRAIN: the part is being trained.
    """

    EVALUATE = "evaluate"
    FROZEN = "frozen"
    TRAIN = "train"

    @property
    def drops(self) -> bool:
        """Whether values are dropped at random."""
        return self is Mode.TRAIN
