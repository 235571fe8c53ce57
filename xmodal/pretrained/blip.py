"""BLIP for retrieval as salesforce/BLIP released it, and in the names of transformers.

`model_base_retrieval_coco.pth`, `model_large_retrieval_flickr.pth` and the like, and the
pretrained `model_base.pth`. The momentum copies, the queues and the decoder of captions are not
part of the model.
"""

import numpy as np

from xmodal.pretrained import layer_rules
from xmodal.pretrained.bert_weights import bert_sizes, hugging_face
from xmodal.pretrained.conversion_report import Taken
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Arrays, LayerRule
from xmodal.pretrained.published_weights import Published
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
_NEW_TOKENS = 2  # [DEC] and [ENC], after BERT's own.
# The names of a ViT's parts by publisher: timm's, and those of transformers.
_TIMM = {
    "start": "visual_encoder.",
    "patches": "patch_embed.proj",
    "class_token": "cls_token",
    "position_embeddings": "pos_embed",
    "norm": "norm",
    "layers": "blocks.{}.",
}
_TRANSFORMERS = {
    "start": "vision_model.",
    "patches": "embeddings.patch_embedding",
    "class_token": "embeddings.class_embedding",
    "position_embeddings": "embeddings.position_embedding",
    "norm": "post_layernorm",
    "layers": "encoder.layers.{}.",
}
_TRANSFORMERS_LAYER = layer_rules.by_part(
    {
        "attention_norm": "layer_norm1",
        "attention_output": "self_attn.projection",
        "mlp_norm": "layer_norm2",
        "mlp_hidden": "mlp.fc1",
        "mlp_output": "mlp.fc2",
    },
    "self_attn.qkv.",
)
_HIDDEN = "mlp.fc1.weight"  # Of a layer of either.


def describe_blip(source: WeightSource) -> Published:
    """Returns the model of a checkpoint.

    Raises:
      UserError: it is not a BLIP with a matching head.
    """
    arrays = source.arrays
    start = layer_rules.find_prefix(arrays, "itm_head.weight")
    image, image_layers = _describe_image(arrays, start)
    text, text_layers, scorer_layers = _describe_text(source, start)
    # transformers leaves the temperature out.
    name = f"{start}temp"
    taken = Taken(name, lambda array: -np.log(np.squeeze(array)), "log(1 / temperature)")
    temperature = {"log_scale": taken} if name in arrays else {}
    return Published(
        towers={"image": image, "text": text},
        similarity={"name": "cosine"} | ({"learned_temperature": True} if temperature else {}),
        layers={"image": image_layers, "text": text_layers, "cross_encoder": scorer_layers},
        parameters=temperature,
        cross_encoder={"name": "cross_attention", "score": "logit"},
        notes=(_WARNING,),
        unused=_UNUSED,
    )


def _describe_image(arrays: Arrays, start: str) -> tuple[Description, dict[str, LayerRule]]:
    is_timm = f"{start}{_TIMM['start']}{_TIMM['class_token']}" in arrays
    names, layer = (
        (_TIMM, layer_rules.TIMM_LAYER) if is_timm else (_TRANSFORMERS, _TRANSFORMERS_LAYER)
    )
    vit = start + names["start"]
    width, _, patch, _ = layer_rules.array_shape(arrays, f"{vit}{names['patches']}.weight")
    _, tokens, _ = layer_rules.array_shape(arrays, vit + names["position_embeddings"])
    grid = layer_rules.grid_side(tokens - 1)
    layers = vit + names["layers"]
    encoder = {
        "name": "vit",
        "patch": patch,
        "width": width,
        "depth": layer_rules.count_layers(arrays, f"{layers}{_HIDDEN}"),
        "heads": layer_rules.count_heads(width),
        "mlp_dim": layer_rules.array_shape(arrays, f"{layers.format(0)}{_HIDDEN}")[0],
        "class_token": True,
        "position_resize": "torch_bicubic",
        "normalization": "clip",
    }
    rules = {
        "encoder/patches": layer_rules.convolution_2d(vit + names["patches"]),
        "encoder/class_token": layer_rules.flat(vit + names["class_token"]),
        "encoder/position_embeddings": layer_rules.flat(vit + names["position_embeddings"]),
        "encoder/layers": layer_rules.stack(arrays, layers, layer, _HIDDEN),
        "encoder/norm": layer_rules.norm(vit + names["norm"]),
        "projection": layer_rules.linear(f"{start}vision_proj"),
    }
    pixels = {"size": grid * patch, "eval_transform": "squash", "eval_crop": 1.0}
    projection = _projection(arrays, f"{start}vision_proj")
    return Description(encoder, {"name": "cls"}, pixels, projection=projection), rules


def _describe_text(
    source: WeightSource, start: str
) -> tuple[Description, dict[str, LayerRule], dict[str, LayerRule]]:
    bert, arrays = f"{start}text_encoder.", source.arrays
    words = f"{bert}embeddings.word_embeddings.weight"
    encoder = {"name": "bert", **bert_sizes(arrays, bert), "types": 0}
    encoder["vocab_size"] -= _NEW_TOKENS
    layers = {
        "encoder": hugging_face(bert, encoder["depth"]),
        "encoder/word_embeddings": layer_rules.changed(
            words, lambda table: table[:-_NEW_TOKENS], "without [DEC] and [ENC]"
        ),
        "projection": layer_rules.linear(f"{start}text_proj"),
    }
    scorer = {
        "marker": layer_rules.changed(words, lambda table: table[-1], "the row of [ENC]"),
        "output": layer_rules.linear(f"{start}itm_head"),
    }
    for number in range(encoder["depth"]):
        block = f"{bert}encoder.layer.{number}.crossattention."
        ours = f"layers_{number}/cross_attention"
        for part in layer_rules.ATTENTION:
            scorer[f"{ours}/{part}"] = layer_rules.linear(f"{block}self.{part}")
        scorer[f"{ours}/output"] = layer_rules.linear(f"{block}output.dense")
        scorer[f"{ours}/residual/norm"] = layer_rules.norm(f"{block}output.LayerNorm")
    files = words_of(source, encoder["vocab_size"])
    projection = _projection(arrays, f"{start}text_proj")
    return Description(encoder, {"name": "cls"}, _TEXTS, files, projection), layers, scorer


def _projection(arrays: Arrays, layer: str) -> dict[str, int]:
    return {"width": layer_rules.array_shape(arrays, f"{layer}.weight")[0]}
