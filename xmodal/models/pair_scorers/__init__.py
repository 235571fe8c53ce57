"""Pair scorers by name: features of images and of texts -> logits of pairs."""

from collections.abc import Mapping
from typing import Any

from xmodal.models.entry_table import Row, make_part
from xmodal.models.pair_scorers import matching_head
from xmodal.models.pair_scorers.pair_scorer import PairScorer

PAIR_SCORERS: Mapping[str, Row] = {
    "matching_head": Row(matching_head.MatchingHeadConfig, matching_head.make_matching_head),
}

__all__ = ["PAIR_SCORERS", "PairScorer", "make_pair_scorer"]


def make_pair_scorer(where: str, config: Mapping[str, Any]) -> PairScorer:
    """Returns the pair scorer that a section with `name` and keywords describes.

    Raises:
      UserError: the name or a keyword is missing or unknown, or a value is out of range.
    """
    return make_part(where, config, PAIR_SCORERS)
