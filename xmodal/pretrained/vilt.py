"""ViLT for retrieval as dandelin/ViLT released it, and in the names of transformers.

`vilt_irtr_coco.ckpt` and the like, whose score is the output of the ranking head, and the
pretrained `vilt_200k_mlm_itm.ckpt`, whose score is the matching head's logit of "match", as in the
authors' zero-shot evaluation.
"""

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import Arrays, LayerRule
from xmodal.pretrained.published_weights import Published
from xmodal.pretrained.vocabularies import words_of
from xmodal.pretrained.weight_files import WeightSource

_WARNING = (
    "dandelin/ViLT scores in float16, so that many pairs tie, and its validation split of COCO, by "
    "which checkpoints were chosen, is the test split."
)
_UNUSED = (r"(.*\.)?(mlm_score|itm_score|vqa_classifier)\.", r"(.*\.)?position_ids$")
# The names of the parts by publisher: the authors', and those of transformers.
_RELEASED = {
    "text": "text_embeddings.",
    "modalities": "token_type_embeddings.weight",
    "class_token": "transformer.cls_token",
    "positions": "transformer.pos_embed",
    "patches": "transformer.patch_embed.proj",
    "norm": "transformer.norm",
    "layers": "transformer.blocks.{}.",
    "hidden": "mlp.fc1.weight",
}
_TRANSFORMERS = {
    "text": "embeddings.text_embeddings.",
    "modalities": "embeddings.token_type_embeddings.weight",
    "class_token": "embeddings.cls_token",
    "positions": "embeddings.position_embeddings",
    "patches": "embeddings.patch_embeddings.projection",
    "norm": "layernorm",
    "layers": "encoder.layer.{}.",
    "hidden": "intermediate.dense.weight",
}
_TRANSFORMERS_LAYER = layer_rules.by_part(
    {
        "attention_norm": "layernorm_before",
        "attention_output": "attention.output.dense",
        "mlp_norm": "layernorm_after",
        "mlp_hidden": "intermediate.dense",
        "mlp_output": "output.dense",
        **{part: f"attention.attention.{part}" for part in layer_rules.ATTENTION},
    }
)


def describe_vilt(source: WeightSource) -> Published:
    """Returns the model of a checkpoint.

    Raises:
      UserError: it is not a ViLT with a ranking or a matching head.
    """
    arrays = source.arrays
    start = layer_rules.find_prefix(arrays, "pooler.dense.weight")
    is_released = start + _RELEASED["modalities"] in arrays
    table = _RELEASED if is_released else _TRANSFORMERS
    names = {part: start + name for part, name in table.items() if part != "hidden"}
    layer = layer_rules.TIMM_LAYER if is_released else _TRANSFORMERS_LAYER
    image, image_layers = _describe_image(arrays, names)
    head, classes = _find_head(arrays)
    rows, width = layer_rules.array_shape(arrays, f"{names['text']}word_embeddings.weight")
    length, _ = layer_rules.array_shape(arrays, f"{names['text']}position_embeddings.weight")
    hidden = names["layers"] + table["hidden"]
    depth = layer_rules.count_layers(arrays, hidden)
    scorer: dict[str, LayerRule] = {
        **{
            name: layer_rules.whole(f"{names['text']}{name}.weight")
            for name in ("word_embeddings", "position_embeddings", "token_type_embeddings")
        },
        "embeddings_norm": layer_rules.norm(f"{names['text']}LayerNorm"),
        "modality_embeddings": layer_rules.whole(names["modalities"]),
        "norm": layer_rules.norm(names["norm"]),
        "pooler": layer_rules.linear(f"{start}pooler.dense"),
        "output": layer_rules.linear(head),
    }
    for number in range(depth):
        rules = {f"layers_{number}": layer}
        scorer |= layer_rules.below(names["layers"].format(number), rules)
    texts = {"tokenizer": "wordpiece", "lower_case": True, "max_length": length}
    encoder = {"name": "token_ids", "vocab_size": rows}
    return Published(
        towers={
            "image": image,
            "text": Description(encoder, {"name": "none"}, texts, words_of(source, rows)),
        },
        similarity={"name": "dot"},
        layers={"image": image_layers, "text": {}, "cross_encoder": scorer},
        cross_encoder={
            "name": "single_stream",
            "classes": classes,
            "score": "logit",
            "width": width,
            "depth": depth,
            "heads": layer_rules.count_heads(width),
            "mlp_dim": layer_rules.array_shape(arrays, hidden.format(0))[0],
            "positions": length,
        },
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


def _describe_image(
    arrays: Arrays, names: dict[str, str]
) -> tuple[Description, dict[str, LayerRule]]:
    width, _, patch, _ = layer_rules.array_shape(arrays, f"{names['patches']}.weight")
    _, tokens, _ = layer_rules.array_shape(arrays, names["positions"])
    grid = layer_rules.grid_side(tokens - 1)
    encoder = {
        "name": "patch_tokens",
        "patch": patch,
        "width": width,
        "grid": grid,
        "normalization": "inception",
    }
    rules = {
        # A convolution of patches is a linear layer of their pixels.
        "encoder/patches": layer_rules.with_kernel(
            names["patches"],
            lambda kernel: kernel.transpose(2, 3, 1, 0).reshape(-1, len(kernel)),
            "OIHW to (HWI)O",
        ),
        "encoder/class_token": layer_rules.flat(names["class_token"]),
        "encoder/position_embeddings": layer_rules.flat(names["positions"]),
    }
    pixels = {"size": grid * patch, "patch": patch}
    return Description(encoder, {"name": "none"}, pixels), rules
