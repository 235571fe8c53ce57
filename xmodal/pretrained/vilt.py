"""ViLT for retrieval as dandelin/ViLT released it, and in the names of transformers.

`vilt_irtr_coco.ckpt` and the like, whose score is the output of the ranking head, and the
pretrained `vilt_200k_mlm_itm.ckpt`, whose score is the matching head's logit of "match", as in the
authors' zero-shot evaluation.
"""

from typing import NamedTuple

import numpy as np

from xmodal.core.errors import UserError
from xmodal.pretrained import layer_rules, torch_models
from xmodal.pretrained.folder import Description
from xmodal.pretrained.torch_models import Arrays, LayerRule, Published

WARNING = (
    "dandelin/ViLT scores in float16, so that many pairs tie, and its validation split of COCO, by "
    "which checkpoints were chosen, is the test split."
)
"""Differences of the evaluation of these checkpoints by their authors."""

EXPECTED_UNEXPECTED = (
    r"(.*\.)?mlm_score\.",
    r"(.*\.)?position_ids$",
    r"(.*\.)?itm_score\.",
    r"(.*\.)?vqa_classifier\.",
)

_HEAD_WIDTH = 64


class _Names(NamedTuple):
    """The names of the arrays.

    Attributes:
      text: start of those of the words.
      modalities: table of text and image.
      image: start of those of the class token, the positions and the patches.
      positions: the table of positions.
      patches: convolution of the patches.
      norm: the last norm.
      layers: start of the names of a layer; {} is its number.
      layer: rule for one layer.
      hidden: a layer's MLP.
    """

    text: str
    modalities: str
    image: str
    positions: str
    patches: str
    norm: str
    layers: str
    layer: LayerRule
    hidden: str


_RELEASED = _Names(
    "text_embeddings.",
    "token_type_embeddings.weight",
    "transformer.",
    "pos_embed",
    "patch_embed.proj",
    "transformer.norm",
    "transformer.blocks.{}.",
    layer_rules.TIMM_LAYER,
    "mlp.fc1.weight",
)
_TRANSFORMERS = _Names(
    "embeddings.text_embeddings.",
    "embeddings.token_type_embeddings.weight",
    "embeddings.",
    "position_embeddings",
    "patch_embeddings.projection",
    "layernorm",
    "encoder.layer.{}.",
    layer_rules.by_part(
        {
            "attention_norm": "layernorm_before",
            "attention_output": "attention.output.dense",
            "mlp_norm": "layernorm_after",
            "mlp_hidden": "intermediate.dense",
            "mlp_output": "output.dense",
            **{part: f"attention.attention.{part}" for part in layer_rules.ATTENTION},
        }
    ),
    "intermediate.dense.weight",
)


def describe_vilt(arrays: Arrays) -> Published:
    """Returns the model of a checkpoint.

    Raises:
      UserError: it is not a ViLT with a ranking or a matching head.
    """
    start = torch_models.find_prefix(arrays, "pooler.dense.weight")
    names = _RELEASED if f"{start}{_RELEASED.modalities}" in arrays else _TRANSFORMERS
    image, image_layers = _describe_image(arrays, start, names)
    scorer = _scorer_rules(arrays, start, names)
    head, classes = _find_head(arrays)
    rows, width = torch_models.array_shape(arrays, f"{start}{names.text}word_embeddings.weight")
    layers = start + names.layers
    hidden, _ = torch_models.array_shape(arrays, f"{layers.format(0)}{names.hidden}")
    positions = f"{start}{names.text}position_embeddings.weight"
    sizes = {
        "width": width,
        "depth": layer_rules.count_layers(arrays, f"{layers}{names.hidden}"),
        "heads": max(1, width // _HEAD_WIDTH),
        "mlp_dim": hidden,
        "positions": torch_models.array_shape(arrays, positions)[0],
    }
    return Published(
        sides={"image": image, "text": _words(rows, sizes["positions"])},
        similarity={"name": "dot"},
        layers={
            "image": image_layers,
            "text": {},
            "pair_scorer": {**scorer, "output": torch_models.linear(head)},
        },
        pair_scorer={"name": "single_stream", "classes": classes, "score": "logit", **sizes},
    )


def _words(rows: int, length: int) -> Description:
    texts = {"tokenizer": "wordpiece", "lower_case": True, "max_length": length}
    return Description({"name": "token_ids", "vocab_size": rows}, {"name": "none"}, texts)


def _find_head(arrays: Arrays) -> tuple[str, int]:
    """The linear layer of the score and its outputs."""
    for name, classes in (("rank_output", 1), ("itm_score.fc", 2)):
        found = [key for key in arrays if f".{key}".endswith(f".{name}.weight")]
        if len(found) == 1:
            return found[0].removesuffix(".weight"), classes
    raise UserError("it has neither a ranking head, 'rank_output', nor a matching head.")


def _describe_image(
    arrays: Arrays, start: str, names: _Names
) -> tuple[Description, dict[str, LayerRule]]:
    image = start + names.image
    width, _, patch, _ = torch_models.array_shape(arrays, f"{image}{names.patches}.weight")
    _, tokens, _ = torch_models.array_shape(arrays, image + names.positions)
    grid = layer_rules.grid_side(tokens - 1, "positions of patches")
    encoder = {
        "name": "patch_tokens", "patch": patch, "width": width, "grid": grid,
        "normalization": "inception",
    }  # fmt: skip
    rules = {
        "encoder/patches": _patches(image + names.patches),
        "encoder/class_token": layer_rules.flat(f"{image}cls_token"),
        "encoder/position_embeddings": layer_rules.flat(image + names.positions),
    }
    pixels = {"size": grid * patch, "patch": patch}
    return Description(encoder, {"name": "none"}, pixels), rules


def _patches(layer: str) -> LayerRule:
    """The rule for a convolution of patches, which is a linear layer of their pixels."""

    def change(kernel: np.ndarray) -> np.ndarray:
        return kernel.transpose(2, 3, 1, 0).reshape(-1, len(kernel))

    return torch_models.with_kernel(layer, change, "OIHW to (HWI)O")


def _scorer_rules(arrays: Arrays, start: str, names: _Names) -> dict[str, LayerRule]:
    words, layers = start + names.text, start + names.layers
    rules = {
        name: torch_models.whole(f"{words}{name}.weight")
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings")
    }
    rules["embeddings_norm"] = torch_models.norm(f"{words}LayerNorm")
    rules["modality_embeddings"] = torch_models.whole(start + names.modalities)
    for number in range(layer_rules.count_layers(arrays, f"{layers}{names.hidden}")):
        rules |= layer_rules.below(layers.format(number), {f"layers_{number}": names.layer})
    rules["norm"] = torch_models.norm(start + names.norm)
    rules["pooler"] = torch_models.linear(f"{start}pooler.dense")
    return rules
