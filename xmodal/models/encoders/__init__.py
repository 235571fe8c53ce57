"""Encoders by name: inputs -> `Features`."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from xmodal.models.devices import Devices
from xmodal.models.encoders import (
    bert,
    convnet,
    efficientnet,
    inception_v3,
    mobilenet_v2,
    modified_resnet,
    patch_tokens,
    precomputed,
    region_tokens,
    resnet,
    rnn,
    text_transformer,
    textcnn,
    token_ids,
    vit,
    word_embedding,
)
from xmodal.models.entry_table import Row, make_part

ENCODERS: Mapping[str, Row] = {
    "bert": Row(bert.BertConfig, bert.make_bert),
    "convnet": Row(convnet.ConvNetConfig, convnet.make_convnet),
    "efficientnet": Row(efficientnet.EfficientNetConfig, efficientnet.make_efficientnet),
    "inception_v3": Row(inception_v3.InceptionV3Config, inception_v3.make_inception_v3),
    "mobilenet_v2": Row(mobilenet_v2.MobileNetV2Config, mobilenet_v2.make_mobilenet_v2),
    "modified_resnet": Row(
        modified_resnet.ModifiedResNetConfig, modified_resnet.make_modified_resnet
    ),
    "patch_tokens": Row(patch_tokens.PatchTokensConfig, patch_tokens.make_patch_tokens),
    "precomputed": Row(precomputed.PrecomputedConfig, precomputed.make_precomputed),
    "region_tokens": Row(region_tokens.RegionTokensConfig, region_tokens.make_region_tokens),
    "resnet": Row(resnet.ResNetConfig, resnet.make_resnet),
    "rnn": Row(rnn.RnnConfig, rnn.make_rnn),
    "text_transformer": Row(
        text_transformer.TextTransformerConfig, text_transformer.make_text_transformer
    ),
    "textcnn": Row(textcnn.TextCnnConfig, textcnn.make_textcnn),
    "token_ids": Row(token_ids.TokenIdsConfig, token_ids.make_token_ids),
    "vit": Row(vit.VitConfig, vit.make_vit),
    "words": Row(word_embedding.WordsConfig, word_embedding.make_words),
}
"""An encoder is called with the columns of a batch and a `Mode`, and returns `Features`.

Its `feature_column` names the column of frozen features, or is None if it has none. Encoders
with frozen features also have `frozen_features(inputs)`, `makes_frozen_features(name)`, and
`may_pool_features`: whether these are its whole output, so that a head may reduce them first.
"""


def make_encoder(where: str, config: Mapping[str, Any], devices: Devices) -> nn.Module:
    """Returns the encoder that a section with `name` and keywords describes."""
    return make_part(where, config, ENCODERS, devices)
