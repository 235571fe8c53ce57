"""Pair scorers by name: features of images and of texts -> logits of pairs."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from xmodal.models.basics import Row, make_part
from xmodal.models.pair_scorers import fusion, single_stream
from xmodal.models.pair_scorers.pair_scorer import PairScorer

PAIR_SCORERS: Mapping[str, Row] = {
    "cross_attention": Row(fusion.CrossAttentionConfig, fusion.make_cross_attention),
    "matching_head": Row(fusion.MatchingHeadConfig, fusion.make_matching_head),
    "single_stream": Row(single_stream.SingleStreamConfig, single_stream.make_single_stream),
}

__all__ = ["PAIR_SCORERS", "PairScorer", "make_pair_scorer"]


def make_pair_scorer(where: str, config: Mapping[str, Any], text_encoder: nn.Module) -> PairScorer:
    """Returns the pair scorer that a section with `name` and keywords describes.

    Args:
      where: the section as a user writes it.
      config: the section.
      text_encoder: encoder of the text tower, whose parameters may be shared.

    Raises:
      UserError: the name or a keyword is missing or unknown, or a value is out of range.
    """
    return make_part(where, config, PAIR_SCORERS, text_encoder)
