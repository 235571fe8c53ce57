"""Cross-encoders by name: features of images and of texts -> logits of pairs."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from xmodal.models.basics import Row, make_part
from xmodal.models.cross_encoders import fusion, single_stream
from xmodal.models.cross_encoders.cross_encoder import CrossEncoder

CROSS_ENCODERS: Mapping[str, Row] = {
    "cross_attention": Row(fusion.CrossAttentionConfig, fusion.make_cross_attention),
    "matching_head": Row(fusion.MatchingHeadConfig, fusion.make_matching_head),
    "single_stream": Row(single_stream.SingleStreamConfig, single_stream.make_single_stream),
}

__all__ = ["CROSS_ENCODERS", "CrossEncoder", "make_cross_encoder"]


def make_cross_encoder(
    where: str, config: Mapping[str, Any], text_encoder: nn.Module
) -> CrossEncoder:
    """Returns the cross-encoder that a section with `name` and keywords describes.

    Args:
      where: the section as a user writes it.
      config: the section.
      text_encoder: encoder of the text tower, whose parameters may be shared.
    """
    return make_part(where, config, CROSS_ENCODERS, text_encoder)
