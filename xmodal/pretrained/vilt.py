"""ViLT for retrieval as dandelin/ViLT released it and as transformers names it, and its ViT.

`vilt_irtr_coco.ckpt` and the like, whose score is the output of the ranking head, and the
pretrained `vilt_200k_mlm_itm.ckpt`, whose score is the matching head's logit of "match", as in the
authors' zero-shot evaluation. In transformers, a ViT with a class token (google's, DINO's) has the
same names.
"""

from xmodal.core.errors import UserError
from xmodal.pretrained.bert_weights import EMBEDDINGS
from xmodal.pretrained.clip_settings import ClipSettings, read_transformers
from xmodal.pretrained.folder import Description
from xmodal.pretrained.layer_rules import (
    ATTENTION,
    TIMM_LAYER,
    Arrays,
    Table,
    Taken,
    find_prefix,
    nest,
    patch_sizes,
    transformer_sizes,
    with_axes,
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
    "class_token": with_axes("embeddings.cls_token", 2),
    "position_embeddings": with_axes("embeddings.position_embeddings"),
    "patches": "embeddings.patch_embeddings.projection",
    "norm": "layernorm",
    "modality_embeddings": "embeddings.token_type_embeddings.weight",
    "text": "embeddings.text_embeddings.",
}
_TRANSFORMERS_LAYERS: tuple[str, Table] = (
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
VIT: Table = {
    **nest("encoder/", "", _TRANSFORMERS),
    **nest("encoder/layers/", *_TRANSFORMERS_LAYERS),
}
"""The names in `transformers.ViTModel`."""
_VIT_USUAL = ClipSettings(
    {"image": "gelu"}, {"image": 12}, {"image": 1e-12}, "squash_bilinear", "inception"
)
# Heads for classes and for pretraining.
_VIT_UNUSED = (r"(.*\.)?(pooler|classifier|decoder)\.", r"(.*\.)?mask_token$")


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
    scorer = {**_scorer_table(table, start, sizes["depth"], (layer, parts)), "output": head}
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


def transformers_tables(depth: int, patch: int) -> dict[str, Table]:
    """Returns the names in transformers' model for retrieval by part of the model.

    Args:
      depth: layers.
      patch: side of a patch in pixels.
    """
    table = nest("", "vilt.", _TRANSFORMERS)
    scorer = _scorer_table(table, "vilt.", depth, _TRANSFORMERS_LAYERS)
    image, scorer = _image_table(table, patch), {**scorer, "output": "rank_output"}
    return {"image": image, "cross_encoder": scorer}


def _scorer_table(
    table: Table, start: str, depth: int, layers: tuple[str, Table]
) -> dict[str, str | Taken]:
    """Returns the names of the cross-encoder but for its head."""
    scorer = {
        **nest("", str(table["text"]), EMBEDDINGS),
        "modality_embeddings": table["modality_embeddings"],
        "norm": table["norm"],
        "pooler": f"{start}pooler.dense",
    }
    for number in range(depth):
        scorer |= nest(f"layers_{number}/", start + layers[0].format(number), layers[1])
    return scorer


def _image_table(table: Table, patch: int) -> Table:
    # A convolution of patches is a linear layer of their pixels.
    kernel = Taken(
        f"{table['patches']}.weight",
        lambda weight: weight.transpose(2, 3, 1, 0),
        lambda kernel: kernel.reshape(patch, patch, 3, -1).transpose(3, 2, 0, 1),
    )
    return {**nest("encoder/", "", table), "encoder/patches/kernel": kernel}


def _find_head(arrays: Arrays) -> tuple[str, int]:
    """The linear layer of the score and its outputs."""
    for name, classes in (("rank_output", 1), ("itm_score.fc", 2)):
        found = [key for key in arrays if f".{key}".endswith(f".{name}.weight")]
        if len(found) == 1:
            return found[0].removesuffix(".weight"), classes
    raise UserError("it has neither a ranking head, 'rank_output', nor a matching head.")


def _describe_image(arrays: Arrays, table: Table) -> PublishedTower:
    patch, size = patch_sizes(arrays, table, "")
    encoder = {
        "name": "patch_tokens",
        "patch": patch,
        "width": len(arrays[f"{table['patches']}.weight"]),
        "grid": size // patch,
        "normalization": "inception",
    }
    pixels = {"size": size, "patch": patch}
    described = Description(encoder, {"name": "none"}, pixels)
    return PublishedTower(described, _image_table(table, patch))


def describe_vit(source: WeightSource) -> Published:
    """Returns a published ViT."""
    arrays, settings = source.arrays, read_transformers(source.files, _VIT_USUAL, ("vit",))
    table = nest("", find_prefix(arrays, "embeddings.cls_token"), VIT)
    patch, size = patch_sizes(arrays, table, "encoder/")
    encoder = {
        "name": "vit",
        "patch": patch,
        **transformer_sizes(arrays, table, "encoder/layers/"),
        "heads": settings.heads["image"],
        "activation": settings.activations["image"],
        "epsilon": settings.epsilon["image"],
        "normalization": settings.normalization,
    }
    pixels = {"size": size, "eval_transform": settings.recipe, "eval_crop": settings.crop}
    tower = PublishedTower(Description(encoder, None, pixels), table)
    return Published(image=tower, unused=_VIT_UNUSED)
