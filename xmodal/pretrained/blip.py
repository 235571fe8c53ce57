"""BLIP for retrieval as salesforce/BLIP released it, and in the names of transformers.

`model_base_retrieval_coco.pth`, `model_large_retrieval_flickr.pth` and the like, and the
pretrained `model_base.pth`. The momentum copies, the queues and the decoder of captions are not
part of the model.
"""

import math
import re
from collections.abc import Mapping

import numpy as np

from xmodal.base.config import UserError
from xmodal.pretrained import torch_models
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

EXPECTED_UNEXPECTED = (
    r"(.*\.)?(visual_encoder|text_encoder|vision_proj|text_proj)_m\.",
    r"(.*\.)?((image|text|idx)_queue|ptr_queue|queue_ptr|temp|logit_scale)$",
    r"(.*\.)?text_decoder\.",
    r"(.*\.)?position_ids$",
)

_HEAD_WIDTH = 64  # Of all published models, on both sides.
_TEXTS = {
    "tokenizer": "wordpiece",
    "lower_case": True,
    "separators": '.!"()*#:;~',
    "max_words": 30,
    "max_length": 35,
}
_TEXT = "text_encoder."
_NEW_TOKENS = 2  # [DEC] and [ENC], after BERT's own.

# Our name of an array of a ViT -> salesforce/BLIP's (timm's) and transformers'.
_TIMM = {
    "start": "visual_encoder.",
    "patches": "patch_embed.proj",
    "class_token": "cls_token",
    "position_embeddings": "pos_embed",
    "norm": "norm",
    "layer": "blocks.{}.",
    "attention_norm": "norm1",
    "qkv": "attn.qkv",
    "attention_output": "attn.proj",
    "mlp_norm": "norm2",
    "mlp_hidden": "mlp.fc1",
    "mlp_output": "mlp.fc2",
}
_TRANSFORMERS = {
    "start": "vision_model.",
    "patches": "embeddings.patch_embedding",
    "class_token": "embeddings.class_embedding",
    "position_embeddings": "embeddings.position_embedding",
    "norm": "post_layernorm",
    "layer": "encoder.layers.{}.",
    "attention_norm": "layer_norm1",
    "qkv": "self_attn.qkv",
    "attention_output": "self_attn.projection",
    "mlp_norm": "layer_norm2",
    "mlp_hidden": "mlp.fc1",
    "mlp_output": "mlp.fc2",
}
_STACKED = ("query", "key", "value")


def describe_blip(arrays: Arrays) -> Published:
    """Returns the model of a checkpoint.

    Raises:
      UserError: it is not a BLIP with a matching head.
    """
    start = torch_models.find_prefix(arrays, "itm_head.weight")
    names = _TIMM if f"{start}{_TIMM['start']}{_TIMM['class_token']}" in arrays else _TRANSFORMERS
    image, image_layers = _describe_image(arrays, start, names)
    text, text_layers, scorer_layers = _describe_text(arrays, start)
    return Published(
        sides={"image": image, "text": text},
        similarity={"name": "cosine"},
        layers={"image": image_layers, "text": text_layers, "pair_scorer": scorer_layers},
        pair_scorer={"name": "cross_attention", "score": "logit"},
    )


def _describe_image(
    arrays: Arrays, start: str, names: Mapping[str, str]
) -> tuple[Description, dict[str, LayerRule]]:
    vit = start + names["start"]
    width, _, patch, _ = torch_models.array_shape(arrays, f"{vit}{names['patches']}.weight")
    _, tokens, _ = torch_models.array_shape(arrays, vit + names["position_embeddings"])
    grid = math.isqrt(tokens - 1)
    if grid * grid != tokens - 1:
        raise UserError(f"it has {tokens - 1} positions of patches, which are not a square.")
    layer = vit + names["layer"]
    hidden, _ = torch_models.array_shape(arrays, f"{layer.format(0)}{names['mlp_hidden']}.weight")
    depth = _count_layers(arrays, layer)
    encoder = {
        "name": "vit",
        "patch": patch,
        "width": width,
        "depth": depth,
        "heads": max(1, width // _HEAD_WIDTH),
        "mlp_dim": hidden,
        "normalization": "clip",
    }
    layers = {
        "encoder/patches": torch_models.convolution_2d(f"{vit}{names['patches']}"),
        "encoder/class_token": _flat(vit + names["class_token"]),
        "encoder/position_embeddings": _first(vit + names["position_embeddings"]),
        "encoder/layers": _transformer(layer, names, depth),
        "encoder/norm": torch_models.norm(vit + names["norm"]),
        "projection": torch_models.linear(f"{start}vision_proj"),
    }
    pixels = {"size": grid * patch, "eval_recipe": "squash"}
    return _tower(arrays, f"{start}vision_proj", encoder, pixels), layers


def _describe_text(
    arrays: Arrays, start: str
) -> tuple[Description, dict[str, LayerRule], dict[str, LayerRule]]:
    bert = f"{start}{_TEXT}"
    words, positions = (
        f"{bert}embeddings.{kind}_embeddings.weight" for kind in ("word", "position")
    )
    layer = f"{bert}encoder.layer.{{}}."
    rows, width = torch_models.array_shape(arrays, words)
    hidden, _ = torch_models.array_shape(arrays, f"{layer.format(0)}intermediate.dense.weight")
    depth = _count_layers(arrays, layer)
    encoder = {
        "name": "bert",
        "vocab_size": rows - _NEW_TOKENS,
        "width": width,
        "depth": depth,
        "heads": max(1, width // _HEAD_WIDTH),
        "mlp_dim": hidden,
        "max_positions": torch_models.array_shape(arrays, positions)[0],
        "types": 0,
    }
    layers = {
        "encoder": torch_models.bert(bert.removesuffix("."), depth),
        "encoder/word_embeddings": lambda leaf: Taken(
            words, lambda table: table[:-_NEW_TOKENS], "without [DEC] and [ENC]"
        ),
        "projection": torch_models.linear(f"{start}text_proj"),
    }
    scorer: dict[str, LayerRule] = {
        "marker": lambda leaf: Taken(words, lambda table: table[-1], "the row of [ENC]"),
        "output": torch_models.linear(f"{start}itm_head"),
    }
    for number in range(depth):
        block, ours = f"{layer.format(number)}crossattention.", f"layers_{number}/cross_attention"
        for part in _STACKED:
            scorer[f"{ours}/{part}"] = torch_models.linear(f"{block}self.{part}")
        scorer[f"{ours}/output"] = torch_models.linear(f"{block}output.dense")
        scorer[f"{ours}/residual/norm"] = torch_models.norm(f"{block}output.LayerNorm")
    return _tower(arrays, f"{start}text_proj", encoder, _TEXTS), layers, scorer


def _tower(arrays: Arrays, projection: str, encoder: dict, inputs: dict) -> Description:
    width, _ = torch_models.array_shape(arrays, f"{projection}.weight")
    return Description(encoder, {"name": "first"}, inputs, projection={"width": width})


def _count_layers(arrays: Arrays, layer: str) -> int:
    pattern = re.compile(re.escape(layer).replace(r"\{\}", r"(\d+)") + ".*")
    return len({match[1] for match in map(pattern.fullmatch, arrays) if match})


def _flat(name: str) -> LayerRule:
    return lambda leaf: Taken(name, np.ravel, "flat")


def _first(name: str) -> LayerRule:
    return lambda leaf: Taken(name, lambda array: array[0], "without the first axis")


def _transformer(layer: str, names: Mapping[str, str], depth: int) -> LayerRule:
    """The rule for the layers of a ViT whose query, key and value are one linear layer."""

    def rule(leaf: str) -> Taken:
        part, array = leaf.split("/")
        theirs = names["qkv" if part in _STACKED else part]
        end = "bias" if array == "bias" else "weight"
        stacked = tuple(f"{layer.format(number)}{theirs}.{end}" for number in range(depth))
        if part not in _STACKED:
            return (
                Taken(stacked, np.transpose, "transposed") if array == "kernel" else Taken(stacked)
            )

        def take(joined: np.ndarray) -> np.ndarray:
            return np.split(joined, len(_STACKED))[_STACKED.index(part)].T

        return Taken(stacked, take, f"{part}, transposed")

    return rule
