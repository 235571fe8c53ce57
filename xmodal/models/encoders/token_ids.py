"""The ids of texts themselves, for a pair scorer with word embeddings of its own."""

import dataclasses
from collections.abc import Mapping

import jax

from xmodal.base.config import setting
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.encoders.text_inputs import read_ids
from xmodal.models.features import Features
from xmodal.models.mode import Mode


@dataclasses.dataclass(frozen=True)
class TokenIdsConfig:
    """Settings of the encoder "token_ids".

    Attributes:
      vocab_size: number of ids; 0 for that of the vocabulary.
    """

    vocab_size: int = setting(at_least=0)


class TokenIds(Encoder):
    """Has no parameters."""

    config: TokenIdsConfig

    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`text_ids` and `text_mask` int [N, T] -> the ids as tokens int [N, T, 1]."""
        del mode
        ids, mask = read_ids(inputs)
        return Features(ids[..., None], mask)
