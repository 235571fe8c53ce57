"""ViLT for retrieval as dandelin/ViLT released it, and in the names of transformers.

`vilt_irtr_coco.ckpt` and the like, whose score is the output of the ranking head, and the
pretrained `vilt_200k_mlm_itm.ckpt`, whose score is the matching head's logit of "match", as in the
authors' zero-shot evaluation.
"""

import math

from xmodal.core.errors import UserError
from xmodal.pretrained.bert_weights import EMBEDDINGS
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import (
    ATTENTION,
    TIMM_LAYER,
    Arrays,
    Table,
    find_prefix,
    nest,
    transformer_sizes,
)
from xmodal.pretrained.published_weights import Published, PublishedTower
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

_WARNING = (
    "dandelin/ViLT scores in float16, so that many pairs tie, and its validation split of COCO, by "
    "which checkpoints were chosen, is the test split."
)
_UNUSED = (r"(.*\.)?(mlm_score|itm_score|vqa_classifier)\.", r"(.*\.)?position_ids$")
# The names of the parts by publisher: the authors', and those of transformers.
_RELEASED: Table = {
    "class_token": "transformer.cls_token",
    "position_embeddings": "transformer.pos_embed",
    "patches": "transformer.patch_embed.proj",
    "norm": "transformer.norm",
    "modality_embeddings": "token_type_embeddings.weight",
    "text": "text_embeddings.",
}
_RELEASED_LAYERS = ("transformer.blocks.{}.", TIMM_LAYER)
_TRANSFORMERS: Table = {
    "class_token": "embeddings.cls_token",
    "position_embeddings": "embeddings.position_embeddings",
    "patches": "embeddings.patch_embeddings.projection",
    "norm": "layernorm",
    "modality_embeddings": "embeddings.token_type_embeddings.weight",
    "text": "embeddings.text_embeddings.",
}
_TRANSFORMERS_LAYERS = (
    "encoder.layer.{}.",
    {
        **{part: f"attention.attention.{part}" for part in ATTENTION},
        "attention_norm": "layernorm_before",
        "attention_output": "attention.output.dense",
        "mlp_norm": "layernorm_after",
        "mlp_hidden": "intermediate.dense",
        "mlp_output": "output.dense",
    },
)


def describe_vilt(source: WeightSource) -> Published:
    """Returns the model of a checkpoint."""
    arrays = source.arrays
    start = find_prefix(arrays, "pooler.dense.weight")
    is_released = f"{start}{_RELEASED['modality_embeddings']}" in arrays
    table = nest("", start, _RELEASED if is_released else _TRANSFORMERS)
    layer, parts = _RELEASED_LAYERS if is_released else _TRANSFORMERS_LAYERS
    head, classes = _find_head(arrays)
    text = str(table["text"])
    rows, _ = arrays[f"{text}word_embeddings.weight"].shape
    length, _ = arrays[f"{text}position_embeddings.weight"].shape
    sizes = transformer_sizes(arrays, nest("", start + layer, parts), "")
    scorer = {
        **nest("", text, EMBEDDINGS),
        "modality_embeddings": table["modality_embeddings"],
        "norm": table["norm"],
        "pooler": f"{start}pooler.dense",
        "output": head,
    }
    for number in range(sizes["depth"]):
        scorer |= nest(f"layers_{number}/", start + layer.format(number), parts)
    texts = {"tokenizer": "wordpiece", "lower_case": True, "max_length": length}
    encoder = {"name": "token_ids", "vocab_size": rows}
    words = Description(encoder, {"name": "none"}, texts, words_of(source, rows))
    return Published(
        image=_describe_image(arrays, table),
        text=PublishedTower(words, {}),
        similarity={"name": "dot"},
        cross_encoder={
            "name": "single_stream",
            "classes": classes,
            "score": "logit",
            **sizes,
            "positions": length,
        },
        layers={"cross_encoder": scorer},
        notes=(_WARNING,),
        unused=_UNUSED,
    )


def _find_head(arrays: Arrays) -> tuple[str, int]:
    """The linear layer of the score and its outputs."""
    for name, classes in (("rank_output", 1), ("itm_score.fc", 2)):
        found = [key for key in arrays if f".{key}".endswith(f".{name}.weight")]
        if len(found) == 1:
            return found[0].removesuffix(".weight"), classes
    raise UserError("it has neither a ranking head, 'rank_output', nor a matching head.")


def _describe_image(arrays: Arrays, table: Table) -> PublishedTower:
    width, _, patch, _ = arrays[f"{table['patches']}.weight"].shape
    _, tokens, _ = arrays[str(table["position_embeddings"])].shape
    grid = math.isqrt(tokens - 1)
    encoder = {
        "name": "patch_tokens",
        "patch": patch,
        "width": width,
        "grid": grid,
        "normalization": "inception",
    }
    # A convolution of patches is a linear layer of their pixels.
    names = ("patches", "class_token", "position_embeddings")
    rules = {f"encoder/{name}": table[name] for name in names}
    pixels = {"size": grid * patch, "patch": patch}
    return PublishedTower(Description(encoder, {"name": "none"}, pixels), rules)
