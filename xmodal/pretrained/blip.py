"""BLIP for retrieval as salesforce/BLIP released it, and in the names of transformers.

`model_base_retrieval_coco.pth`, `model_large_retrieval_flickr.pth` and the like, and the
pretrained `model_base.pth`. The momentum copies, the queues and the decoder of captions are not
part of the model.
"""

import numpy as np

from xmodal.pretrained.bert_weights import HUGGING_FACE, bert_sizes
from xmodal.pretrained.clip_layouts import TIMM_IMAGE, TRANSFORMERS_IMAGE
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import (
    ATTENTION,
    Arrays,
    Table,
    Taken,
    find_prefix,
    nest,
    patch_sizes,
    split,
    transformer_sizes,
    with_axes,
)
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

_WARNING = (
    "salesforce/BLIP's retrieval and this model read [ENC] as a text's first token; its class for "
    "single pairs (blip_itm.py) and transformers leave [CLS] there, so that their scores differ."
)
_UNUSED = (
    r"(.*\.)?(visual_encoder|text_encoder|vision_proj|text_proj)_m\.",
    r"(.*\.)?((image|text|idx)_queue|ptr_queue|queue_ptr|logit_scale)$",
    r"(.*\.)?text_decoder\.",
    r"(.*\.)?position_ids$",
)
_TEXTS = {
    "tokenizer": "wordpiece",
    "lower_case": True,
    "separators": '.!"()*#:;~',
    "max_words": 30,
    "max_length": 35,
}
NEW_TOKENS = 2
"""Rows of [DEC] and [ENC] after those of BERT's own tokens."""
# The names of the image tower by publisher: the authors', which are timm's, and transformers'.
_TIMM: Table = {
    **nest("", "visual_encoder.", TIMM_IMAGE),
    "encoder/class_token": "visual_encoder.cls_token",
}
_TRANSFORMERS: Table = {
    **nest("", "vision_model.", TRANSFORMERS_IMAGE),
    "encoder/class_token": with_axes("vision_model.embeddings.class_embedding", 2),
    "encoder/position_embeddings": with_axes("vision_model.embeddings.position_embedding"),
    **nest("encoder/layers/", "vision_model.encoder.layers.{}.", split("self_attn.qkv")),
    "encoder/layers/attention_output": "vision_model.encoder.layers.{}.self_attn.projection",
}
_CROSS_ATTENTION = {
    **{part: f"self.{part}" for part in ATTENTION},
    "output": "output.dense",
    "residual/norm": "output.LayerNorm",
}


def describe_blip(source: WeightSource) -> Published:
    """Returns the model of a checkpoint."""
    arrays = source.arrays
    start = find_prefix(arrays, "itm_head.weight")
    text, scorer_table = _describe_text(source, start)
    # transformers leaves the temperature out.
    name = f"{start}temp"
    taken = Taken(name, lambda array: -np.log(array))  # log(1 / temperature).
    temperature = {"log_scale": taken} if name in arrays else {}
    return Published(
        image=_describe_image(arrays, start),
        text=text,
        similarity={"name": "cosine"} | ({"learned_temperature": True} if temperature else {}),
        parameters=temperature,
        cross_encoder={"name": "cross_attention", "score": "logit"},
        layers={"cross_encoder": scorer_table},
        notes=(_WARNING,),
        unused=_UNUSED,
    )


def transformers_tables(depth: int) -> dict[str, Table]:
    """Returns the names in transformers by part of the model.

    Args:
      depth: layers of the text encoder.
    """
    text, scorer = _text_tables("", depth)
    image = {**_TRANSFORMERS, "projection": "vision_proj"}
    return {"image": image, "text": text, "cross_encoder": scorer}


def _describe_image(arrays: Arrays, start: str) -> PublishedTower:
    is_timm = f"{start}{_TIMM['encoder/class_token']}" in arrays
    table = nest("", start, _TIMM if is_timm else _TRANSFORMERS)
    table["projection"] = f"{start}vision_proj"
    patch, size = patch_sizes(arrays, table, "encoder/")
    encoder = {
        "name": "vit",
        "patch": patch,
        **transformer_sizes(arrays, table, "encoder/layers/"),
        "class_token": True,
        "position_resize": "torch_bicubic",
        "normalization": "clip",
    }
    pixels = {"size": size, "eval_transform": "squash", "eval_crop": 1.0}
    projection = {"width": arrays[f"{start}vision_proj.weight"].shape[0]}
    description = Description(encoder, {"name": "cls"}, pixels, projection=projection)
    return PublishedTower(description, table)


def _text_tables(start: str, depth: int) -> tuple[dict[str, str | Taken], Table]:
    """Returns the names of the text tower and of the cross-encoder."""
    bert = f"{start}text_encoder."
    words = f"{bert}embeddings.word_embeddings.weight"
    table = {
        **nest("encoder/", bert, HUGGING_FACE),
        # Without [DEC], whose row is lost, and [ENC].
        "encoder/word_embeddings": Taken(
            words, lambda table: table[:-NEW_TOKENS], lambda table: np.pad(table, ((0, 1), (0, 0)))
        ),
        "projection": f"{start}text_proj",
    }
    scorer: dict[str, str | Taken] = {
        "marker": Taken(words, lambda table: table[-1], lambda row: row[None], 1),  # [ENC].
        "output": f"{start}itm_head",
    }
    for number in range(depth):
        block = f"{bert}encoder.layer.{number}.crossattention."
        scorer |= nest(f"layers_{number}/cross_attention/", block, _CROSS_ATTENTION)
    return table, scorer


def _describe_text(source: WeightSource, start: str) -> tuple[PublishedTower, Table]:
    arrays, layers = source.arrays, nest("", f"{start}text_encoder.", HUGGING_FACE)
    encoder = {"name": "bert", **bert_sizes(arrays, layers), "types": 0}
    encoder["vocab_size"] -= NEW_TOKENS
    table, scorer = _text_tables(start, encoder["depth"])
    files = words_of(source, encoder["vocab_size"])
    projection = {"width": arrays[f"{start}text_proj.weight"].shape[0]}
    description = Description(encoder, {"name": "cls"}, _TEXTS, files, projection)
    return PublishedTower(description, table), scorer
