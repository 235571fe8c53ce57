"""The base of all encoders."""

from collections.abc import Mapping
from typing import ClassVar

import flax.linen as nn
import jax

from xmodal.models.features import Features
from xmodal.models.mode import Mode


class Encoder(nn.Module):
    """Turns the columns of a batch into `Features`.

    An encoder with frozen features can be run once, before training, with the weights that are
    frozen, and then reads what it returned in place of the raw column.

    Attributes:
      feature_column: column of the frozen features; "" if the encoder has none.
    """

    feature_column: ClassVar[str] = ""

    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """Returns the tokens [N, T, W] of the items in some columns of a batch."""
        raise NotImplementedError

    def frozen_features(self, inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns the frozen features [N, T, W], by default all tokens, by `feature_column`."""
        return {self.feature_column: self(inputs, Mode.EVALUATE).tokens}

    @property
    def may_pool_features(self) -> bool:
        """Whether frozen features are the whole output, so that a head may reduce them first."""
        return True

    def makes_frozen_features(self, name: str) -> bool:
        """Returns whether frozen features depend on the parameters called `name`."""
        return True
