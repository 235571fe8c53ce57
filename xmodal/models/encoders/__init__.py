"""Encoders by name: columns of a batch -> `Features`."""

from collections.abc import Callable, Mapping
from typing import Any

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
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.entry_table import Row, make_part


def _alike(config: type, encoder: Callable[[Any], Encoder]) -> Row:
    """The row of an encoder that is the same on all devices."""
    return Row(config, lambda section, devices: encoder(section))


ENCODERS: Mapping[str, Row] = {
    "bert": Row(bert.BertConfig, bert.make_bert),
    "convnet": Row(convnet.ConvNetConfig, convnet.make_convnet),
    "efficientnet": Row(efficientnet.EfficientNetConfig, efficientnet.make_efficientnet),
    "inception_v3": Row(inception_v3.InceptionV3Config, inception_v3.make_inception_v3),
    "mobilenet_v2": Row(mobilenet_v2.MobileNetV2Config, mobilenet_v2.make_mobilenet_v2),
    "modified_resnet": Row(
        modified_resnet.ModifiedResNetConfig, modified_resnet.make_modified_resnet
    ),
    "patch_tokens": _alike(patch_tokens.PatchTokensConfig, patch_tokens.PatchTokens),
    "precomputed": _alike(precomputed.PrecomputedConfig, precomputed.Precomputed),
    "region_tokens": _alike(region_tokens.RegionTokensConfig, region_tokens.RegionTokens),
    "resnet": Row(resnet.ResNetConfig, resnet.make_resnet),
    "rnn": _alike(rnn.RnnConfig, rnn.Rnn),
    "text_transformer": Row(
        text_transformer.TextTransformerConfig, text_transformer.make_text_transformer
    ),
    "textcnn": _alike(textcnn.TextCnnConfig, textcnn.TextCnn),
    "token_ids": _alike(token_ids.TokenIdsConfig, token_ids.TokenIds),
    "vit": Row(vit.VitConfig, vit.make_vit),
    "words": _alike(word_embedding.WordsConfig, word_embedding.Words),
}
"""Encoders, see `Encoder`, by name."""


def make_encoder(where: str, config: Mapping[str, Any], devices: Devices) -> Encoder:
    """Returns the encoder that a section with `name` and keywords describes."""
    return make_part(where, config, ENCODERS, devices)
