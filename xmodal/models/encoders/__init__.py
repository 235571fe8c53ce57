"""Encoders by name: columns of a batch -> `Features`."""

from collections.abc import Callable, Mapping
from typing import Any

from xmodal.models.basics import Devices, Row, make_part
from xmodal.models.encoders import (
    bert,
    convnet,
    efficientnet,
    inception_v3,
    mobilenet_v2,
    precomputed,
    resnet,
    text_transformer,
    vit,
    word_embedding,
)
from xmodal.models.encoders.encoder import Encoder


def _alike(config: type, encoder: Callable[[Any], Encoder]) -> Row:
    """The row of an encoder that is the same on all devices."""
    return Row(config, lambda section, devices: encoder(section))


ENCODERS: Mapping[str, Row] = {
    "bert": Row(bert.BertConfig, bert.make_bert),
    "convnet": Row(convnet.ConvNetConfig, convnet.ConvNet),
    "efficientnet": Row(efficientnet.EfficientNetConfig, efficientnet.EfficientNet),
    "inception_v3": Row(inception_v3.InceptionV3Config, inception_v3.InceptionV3),
    "mobilenet_v2": Row(mobilenet_v2.MobileNetV2Config, mobilenet_v2.MobileNetV2),
    "modified_resnet": Row(resnet.ModifiedResNetConfig, resnet.ModifiedResNet),
    "patch_tokens": _alike(vit.PatchTokensConfig, vit.PatchTokens),
    "precomputed": _alike(precomputed.PrecomputedConfig, precomputed.Precomputed),
    "region_tokens": _alike(precomputed.RegionTokensConfig, precomputed.RegionTokens),
    "resnet": Row(resnet.ResNetConfig, resnet.ResNet),
    "rnn": _alike(word_embedding.RnnConfig, word_embedding.Rnn),
    "text_transformer": Row(
        text_transformer.TextTransformerConfig, text_transformer.make_text_transformer
    ),
    "textcnn": _alike(word_embedding.TextCnnConfig, word_embedding.TextCnn),
    "token_ids": _alike(word_embedding.TokenIdsConfig, word_embedding.TokenIds),
    "vit": Row(vit.VitConfig, vit.make_vit),
    "words": _alike(word_embedding.WordsConfig, word_embedding.Words),
}
"""Encoders, see `Encoder`, by name."""


def make_encoder(where: str, config: Mapping[str, Any], devices: Devices) -> Encoder:
    """Returns the encoder that a section with `name` and keywords describes."""
    return make_part(where, config, ENCODERS, devices)
