"""A small matching head on the features of both towers, with layers like those of BLIP.

Li et al., "BLIP" (2022), and salesforce/BLIP, models/blip_retrieval.py. BLIP itself is the pair
scorer "cross_attention"; this one has its own layers, of any size, and continues with the text
encoder's last tokens.
"""

import dataclasses

import flax.linen as nn
import jax

from xmodal.base.config import setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.features import Features
from xmodal.models.layer_init import BERT
from xmodal.models.mode import Mode
from xmodal.models.pair_scorers.fusion_encoder import FusionEncoder
from xmodal.models.pair_scorers.fusion_layer import FusionSizes
from xmodal.models.pair_scorers.pair_scorer import SCORES, PairScorer


@dataclasses.dataclass(frozen=True)
class MatchingHeadConfig(FusionSizes):
    """Settings of the pair scorer "matching_head". See `FusionSizes`.

    Attributes:
      score: what ranks pairs: "log_odds", the logit of "match" minus that of "no match", which
        orders pairs as their probability does, without its ties near 1; or "logit", that of
        "match" alone, as in BLIP, which adds the cosine of the towers, see `PairReranker`.
    """

    score: str = setting("log_odds", one_of=SCORES)


class MatchingHead(FusionEncoder):
    """Parameters: those of `FusionEncoder`, and `input`, text tokens to the layers' width."""

    def setup(self) -> None:
        """Makes the layers."""
        super().setup()
        dtype = DTYPES[self.sizes.dtype]
        self.input = nn.Dense(self.sizes.width, kernel_init=BERT, dtype=dtype)

    def text(self, features: Features, mode: Mode) -> dict[str, jax.Array]:
        """Tokens [N, T, any width] -> tokens after the first self-attention, and `mask`."""
        mask = features.full_mask()
        x = self.input(features.real_tokens())
        return self.read_text(x, mask, mode)


def make_matching_head(config: MatchingHeadConfig, text_encoder: nn.Module) -> PairScorer:
    """Returns a matching head."""
    del text_encoder
    return PairScorer("matching_head", config.score, MatchingHead(config))
