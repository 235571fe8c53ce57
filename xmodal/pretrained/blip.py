"""BLIP for retrieval as salesforce/BLIP released it, and in the names of transformers.

`model_base_retrieval_coco.pth`, `model_large_retrieval_flickr.pth` and the like, and the
pretrained `model_base.pth`. The momentum copies, the queues and the decoder of captions are not
part of the model.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules, torch_models
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

WARNING = (
    "salesforce/BLIP's retrieval and this model read [ENC] as a text's first token; its class for "
    "single pairs (blip_itm.py) and transformers leave [CLS] there, so that their scores differ."
)
"""How other code evaluates these checkpoints."""

EXPECTED_UNEXPECTED = (
    r"(.*\.)?(visual_encoder|text_encoder|vision_proj|text_proj)_m\.",
    r"(.*\.)?((image|text|idx)_queue|ptr_queue|queue_ptr|logit_scale)$",
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


class _VitNames(NamedTuple):
    """The names of a ViT's arrays.

    Attributes:
      start: start of all names.
      patches: convolution of the patches.
      class_token: its array.
      position_embeddings: their array.
      norm: the last norm.
      layers: start of the names of a layer; {} is its number.
      layer: rule for one layer.
    """

    start: str
    patches: str
    class_token: str
    position_embeddings: str
    norm: str
    layers: str
    layer: LayerRule


_TIMM = _VitNames(
    "visual_encoder.",
    "patch_embed.proj",
    "cls_token",
    "pos_embed",
    "norm",
    "blocks.{}.",
    layer_rules.TIMM_LAYER,
)
_TRANSFORMERS = _VitNames(
    "vision_model.",
    "embeddings.patch_embedding",
    "embeddings.class_embedding",
    "embeddings.position_embedding",
    "post_layernorm",
    "encoder.layers.{}.",
    layer_rules.by_part(
        {
            "attention_norm": "layer_norm1",
            "attention_output": "self_attn.projection",
            "mlp_norm": "layer_norm2",
            "mlp_hidden": "mlp.fc1",
            "mlp_output": "mlp.fc2",
        },
        "self_attn.qkv.",
    ),
)
_HIDDEN = "mlp.fc1.weight"  # Of a layer of either.


def describe_blip(arrays: Arrays) -> Published:
    """Returns the model of a checkpoint.

    Raises:
      UserError: it is not a BLIP with a matching head, or its temperature is not positive.
    """
    start = torch_models.find_prefix(arrays, "itm_head.weight")
    names = _TIMM if f"{start}{_TIMM.start}{_TIMM.class_token}" in arrays else _TRANSFORMERS
    image, image_layers = _describe_image(arrays, start, names)
    text, text_layers, scorer_layers = _describe_text(arrays, start)
    similarity, temperature = _describe_similarity(arrays, start)
    return Published(
        sides={"image": image, "text": text},
        similarity=similarity,
        layers={"image": image_layers, "text": text_layers, "pair_scorer": scorer_layers},
        parameters=temperature,
        pair_scorer={"name": "cross_attention", "score": "logit"},
    )


def _describe_similarity(
    arrays: Arrays, start: str
) -> tuple[dict[str, Any], Mapping[str, str | Taken]]:
    """The cosine and its temperature, which transformers leaves out."""
    name = f"{start}temp"
    if name not in arrays:
        return {"name": "cosine"}, {}
    if not (value := float(np.squeeze(arrays[name]))) > 0:
        raise UserError(f"its temperature, {name}, is {value}, not a positive number.")
    taken = Taken(name, lambda array: -np.log(np.squeeze(array)), "log(1 / temperature)")
    return {"name": "cosine", "learned_temperature": True}, {"log_scale": taken}


def _describe_image(
    arrays: Arrays, start: str, names: _VitNames
) -> tuple[Description, dict[str, LayerRule]]:
    vit = start + names.start
    width, _, patch, _ = torch_models.array_shape(arrays, f"{vit}{names.patches}.weight")
    _, tokens, _ = torch_models.array_shape(arrays, vit + names.position_embeddings)
    grid = layer_rules.grid_side(tokens - 1, "positions of patches")
    layers = vit + names.layers
    hidden, _ = torch_models.array_shape(arrays, f"{layers.format(0)}{_HIDDEN}")
    encoder = {
        "name": "vit",
        "patch": patch,
        "width": width,
        "depth": layer_rules.count_layers(arrays, f"{layers}{_HIDDEN}"),
        "heads": max(1, width // _HEAD_WIDTH),
        "mlp_dim": hidden,
        "class_token": True,
        "position_resize": "torch_bicubic",
        "normalization": "clip",
    }
    rules = {
        "encoder/patches": torch_models.convolution_2d(vit + names.patches),
        "encoder/class_token": layer_rules.flat(vit + names.class_token),
        "encoder/position_embeddings": layer_rules.flat(vit + names.position_embeddings),
        "encoder/layers": layer_rules.stack(arrays, layers, names.layer, _HIDDEN),
        "encoder/norm": torch_models.norm(vit + names.norm),
        "projection": torch_models.linear(f"{start}vision_proj"),
    }
    pixels = {"size": grid * patch, "eval_recipe": "squash", "eval_crop": 1.0}
    return _tower(arrays, f"{start}vision_proj", encoder, pixels), rules


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
    depth = layer_rules.count_layers(arrays, f"{layer}intermediate.dense.weight")
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
        for part in layer_rules.ATTENTION:
            scorer[f"{ours}/{part}"] = torch_models.linear(f"{block}self.{part}")
        scorer[f"{ours}/output"] = torch_models.linear(f"{block}output.dense")
        scorer[f"{ours}/residual/norm"] = torch_models.norm(f"{block}output.LayerNorm")
    return _tower(arrays, f"{start}text_proj", encoder, _TEXTS), layers, scorer


def _tower(arrays: Arrays, projection: str, encoder: dict, inputs: dict) -> Description:
    width, _ = torch_models.array_shape(arrays, f"{projection}.weight")
    return Description(encoder, {"name": "first"}, inputs, projection={"width": width})
